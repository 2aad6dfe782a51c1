// Sets the chosen theme before the first paint.

const theme = localStorage.getItem("palestra-theme");
if (theme === "light" || theme === "dark") document.documentElement.dataset["theme"] = theme;
