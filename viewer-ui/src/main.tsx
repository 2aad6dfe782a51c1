// The page of `palestra view`: takes the token, then draws the place that the URL names.

import { render } from "preact";
import { takeToken } from "./api";
import { App } from "./app";
import { followLinks } from "./router";
import "./style.css";

takeToken();
followLinks();
const page = document.getElementById("page");
if (page) render(<App />, page);
