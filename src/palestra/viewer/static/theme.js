"use strict";
(() => {
  // src/theme.ts
  var theme = localStorage.getItem("palestra-theme");
  if (theme === "light" || theme === "dark") document.documentElement.dataset["theme"] = theme;
})();
