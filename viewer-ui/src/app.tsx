// Which page a URL shows, and what is around every page: the bar, its keys, the status line.

import { useEffect, useRef, useState } from "preact/hooks";
import { request } from "./api";
import { useKeys, useReply } from "./hooks";
import { AboutPage } from "./pages/about";
import { ClusterPage } from "./pages/cluster";
import { ComparePage } from "./pages/compare";
import { FailuresPage } from "./pages/failures";
import { RolloutPage } from "./pages/rollout";
import { RunLayout, type RunPart } from "./pages/layout";
import { RunOverview } from "./pages/run";
import { RunsPage } from "./pages/runs";
import { SelectPage } from "./pages/select";
import { TablePage } from "./pages/tables";
import { TaskPage } from "./pages/task";
import { Boundary, copyAndSay, StatusLine, Tip } from "./parts/common";
import type { ViewerSession } from "./replies";
import { type Place, usePlace } from "./router";

const KEYS: readonly [string, string][] = [
  ["?", "this list"],
  ["/", "the query, or find in a transcript"],
  ["j k", "next, previous row or item"],
  ["Enter", "open it"],
  ["Esc", "close, or one level up"],
  ["[ ]", "previous, next rollout or task"],
  ["g", "the group of a rollout"],
  ["d", "difference to another rollout"],
  ["t", "tokens"],
  ["r", "raw row"],
  ["c", "copy a link to what is shown"],
];

const parts = (path: string): string[] => path.split("/").filter(Boolean).map(decodeURIComponent);

const Page = ({ place, session }: { place: Place; session: ViewerSession | null }) => {
  const [kind, id = "", part = "", task = "", rollout] = parts(place.path);
  if (kind === undefined) return <RunsPage session={session} search={place.search} />;
  if (kind === "c") return <ComparePage key={place.path} a={id} b={part} search={place.search} />;
  if (kind === "k") return <ClusterPage key={id} id={id} />;
  if (kind !== "r" || !id) return <Missing />;
  return (
    <RunLayout key={id} run={id} part={(part || "overview") as RunPart} task={task} rollout={rollout}>
      {(view) => {
        if (part === "") return <RunOverview view={view} />;
        if (part === "tasks" || part === "rollouts") {
          return <TablePage key={part} view={view} of={part} search={place.search} first={session?.query ?? ""} />;
        }
        if (part === "failures") return <FailuresPage view={view} />;
        if (part === "select") return <SelectPage view={view} search={place.search} />;
        if (part === "about") return <AboutPage view={view} />;
        if (part !== "t") return <Missing />;
        if (rollout === undefined) return <TaskPage key={task} view={view} task={task} search={place.search} />;
        return <RolloutPage key={`${place.path} ${place.search.get("row")}`} view={view} task={task} rollout={rollout} search={place.search} />;
      }}
    </RunLayout>
  );
};

const Missing = () => (
  <main>
    <h1>There is no such page</h1>
    <p class="lead">
      <a href="/">All runs</a>
    </p>
  </main>
);

const THEMES = ["system", "light", "dark"] as const;
type Theme = (typeof THEMES)[number];

const ThemeButton = () => {
  const [theme, setTheme] = useState<Theme>((localStorage.getItem("palestra-theme") as Theme | null) ?? "system");
  const change = () => {
    const next = THEMES[(THEMES.indexOf(theme) + 1) % THEMES.length] ?? "system";
    setTheme(next);
    localStorage.setItem("palestra-theme", next);
    if (next === "system") delete document.documentElement.dataset["theme"];
    else document.documentElement.dataset["theme"] = next;
    dispatchEvent(new Event("palestra-theme"));
  };
  return (
    <button type="button" id="theme" onClick={change}>
      Theme: {theme}
    </button>
  );
};

const KeysDialog = ({ opened, close }: { opened: boolean; close: () => void }) => {
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    if (opened) dialog.current?.showModal();
    else dialog.current?.close();
  }, [opened]);
  return (
    <dialog ref={dialog} class="keys" aria-labelledby="keys-title" onClose={close}>
      <h2 id="keys-title">Keys</h2>
      <dl>
        {KEYS.map(([key, text]) => (
          <div key={key}>
            <dt>
              {key.split(" ").map((one) => (
                <kbd key={one}>{one}</kbd>
              ))}
            </dt>
            <dd>{text}</dd>
          </div>
        ))}
      </dl>
      <button type="button" onClick={close}>
        Close
      </button>
    </dialog>
  );
};

export const App = () => {
  const place = usePlace();
  const [keysShown, showKeys] = useState(false);
  const session = useReply(request("session"));
  useKeys({
    "?": () => showKeys(true),
    c: () => copyAndSay(location.href, "Link"),
  });
  return (
    <>
      <a class="skip" href="#main">
        Skip to the content
      </a>
      <header class="top">
        <a href="/" class="brand">
          Palestra
        </a>
        <div class="tools">
          <button type="button" onClick={() => showKeys(true)} aria-label="Keys" data-tip="Keys (?)">
            ?
          </button>
          <ThemeButton />
        </div>
      </header>
      <Boundary name="page" key={place.path}>
        <Page place={place} session={session.data} />
      </Boundary>
      <KeysDialog opened={keysShown} close={() => showKeys(false)} />
      <StatusLine />
      <Tip />
    </>
  );
};
