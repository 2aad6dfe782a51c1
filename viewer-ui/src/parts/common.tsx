// Small parts of every page: hostile text, panels with their errors, buttons that copy, tips.

import { Component, type ComponentChildren } from "preact";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { ReplyError } from "../api";
import { bytes } from "../format";
import { type Reply, useLate } from "../hooks";
import type { Base } from "../replies";
import { ansiSpans, isPlain, sentence, visible, visibleLine } from "../text";

/** One line of text that a row holds: isolated, and marked as not ours. */
export const Theirs = ({ text, limit = 200 }: { text: string; limit?: number }) => (
  <bdi class="theirs" dir="auto" title={text.length > limit ? visibleLine(text, 2 * limit) : undefined}>
    {visibleLine(text, limit)}
  </bdi>
);

/** A path of at most `limit` characters; lines end after its slashes. */
export const FilePath = ({ text, limit = 300 }: { text: string; limit?: number }) => (
  <bdi class="theirs" dir="auto" title={text.length > limit ? visibleLine(text, 2 * limit) : undefined}>
    {visibleLine(text, limit)
      .split("/")
      .flatMap((part, at) => (at ? ["/", <wbr key={at} />, part] : [part]))}
  </bdi>
);

/** A sentence whose `commands` are set as code, and whose options stay whole: no line ends after their hyphens. */
export const WithOptions = ({ text }: { text: string }) => (
  <>
    {text.split(/(`[^`\n]+`|--[a-z][a-z-]*|\+[a-z_]+=[\w[\]]+)/).map((part, at) => {
      if (at % 2 === 0) return part;
      const isQuoted = part.startsWith("`");
      return (
        <code key={at} class={isQuoted ? "quoted" : "option"}>
          {isQuoted ? part.slice(1, -1) : part}
        </code>
      );
    })}
  </>
);

/** A text with the colours of a terminal as classes. */
export const Coloured = ({ text }: { text: string }) => (
  <>
    {ansiSpans(text).map((span, at) =>
      span.style ? (
        <span key={at} class={span.style}>
          {span.text}
        </span>
      ) : (
        span.text
      ),
    )}
  </>
);

/** Text of a file as a block, with its lines. */
export const TheirBlock = ({ text, label }: { text: string; label: string }) => (
  <pre class="theirs" dir="auto" tabIndex={0} role="region" aria-label={label}>
    {visible(text)}
  </pre>
);

export const ErrorBox = ({ error }: { error: ReplyError }) => {
  const { hint, where, layer, nearest, position } = error.reply;
  const facts = [where, layer, position !== null && position !== undefined && `at character ${position + 1}`].filter(Boolean);
  return (
    <div class="error" role="alert">
      <p>
        <b>{sentence(visible(error.message))}</b>
        {facts.length > 0 && <span class="quiet"> {visible(facts.join(", "))}</span>}
      </p>
      {nearest && <p>Nearest field: {visible(nearest)}.</p>}
      {hint && (
        <p>
          <WithOptions text={sentence(visible(hint))} />
        </p>
      )}
      {error.status === 409 && (
        <button type="button" onClick={() => location.reload()}>
          Load again
        </button>
      )}
    </div>
  );
};

interface BoundaryState {
  error: Error | null;
}

/** Keeps an error of one panel inside it. */
export class Boundary extends Component<{ children: ComponentChildren; name: string }, BoundaryState> {
  override state: BoundaryState = { error: null };

  static override getDerivedStateFromError(error: Error): BoundaryState {
    return { error };
  }

  override render() {
    const { error } = this.state;
    if (!error) return this.props.children;
    return <ErrorBox error={new ReplyError(0, { message: `This part cannot be drawn: ${error.message}`, where: this.props.name })} />;
  }
}

interface PanelProps<T> {
  title?: string;
  id?: string;
  lead?: string;
  reply: Reply<T>;
  class?: string;
  children: (data: T) => ComponentChildren;
}

/** A section that waits for a reply, and shows its error in its own place. */
export const Panel = <T,>({ title, id, lead, reply, class: name, children }: PanelProps<T>) => {
  const late = useLate(reply.loading);
  return (
    <section class={name} id={id} aria-busy={reply.loading}>
      {title && <h2>{title}</h2>}
      {lead && <p class="section-lead">{lead}</p>}
      {reply.error && <ErrorBox error={reply.error} />}
      {!reply.data && !reply.error && late && <Waiting indexed={reply.indexed} />}
      {reply.data && (
        <Boundary name={title ?? id ?? "panel"}>
          <Drawn draw={children} data={reply.data} />
        </Boundary>
      )}
    </section>
  );
};

/** Stands where a reply will be; `indexed`: how far the index is, when the reply waits for it. */
export const Waiting = ({ indexed }: { indexed: Base | null }) => (
  <p class="quiet waiting" role={indexed ? "status" : undefined}>
    {indexed
      ? `Not read yet: ${bytes(indexed.indexed_bytes)} of ${bytes(indexed.total_bytes)} so far. This part appears by itself.`
      : "Loading…"}
  </p>
);

// a component of its own, so that what it throws reaches the boundary
const Drawn = <T,>({ draw, data }: { draw: (data: T) => ComponentChildren; data: T }) => <>{draw(data)}</>;

const copyText = async (text: string): Promise<void> => {
  if (navigator.clipboard) return navigator.clipboard.writeText(text);
  // without a secure context there is no clipboard, but a selection can be copied
  const area = document.createElement("textarea");
  area.value = text;
  document.body.append(area);
  area.select();
  document.execCommand("copy");
  area.remove();
};

let announced: ((text: string) => void) | null = null;

/** Says a sentence in the page's status line, for eyes and screen readers. */
export const announce = (text: string): void => announced?.(text);

export const copyAndSay = (text: string, what: string): void => {
  copyText(text).then(
    () => announce(`${what} copied.`),
    () => announce(`${what} could not be copied: the browser refused.`),
  );
};

export const StatusLine = () => {
  const [text, setText] = useState("");
  useEffect(() => {
    announced = setText;
    return () => {
      announced = null;
    };
  }, []);
  useEffect(() => {
    if (!text) return undefined;
    const timer = setTimeout(() => setText(""), 2_500);
    return () => clearTimeout(timer);
  }, [text]);
  return (
    <p class={text ? "status shown" : "status"} role="status">
      {text}
    </p>
  );
};

/** A command to copy. One that holds more than printable ASCII is shown, and not copied. */
export const Command = ({ name, text }: { name: string; text: string }) => (
  <div class="copyable">
    <code tabIndex={0} role="region" aria-label={name}>
      <WithOptions text={visible(text)} />
    </code>
    <button type="button" disabled={!isPlain(text)} onClick={() => copyAndSay(text, name)} aria-label={`Copy: ${name}`}>
      Copy
    </button>
  </div>
);

export const Scrolling = ({ label, children }: { label: string; children: ComponentChildren }) => (
  <div class="scrolling" tabIndex={0} role="region" aria-label={label}>
    {children}
  </div>
);

export const Facts = ({ pairs }: { pairs: readonly { name: string; value: string }[] }) => (
  <dl class="settings">
    {pairs.map(({ name, value }) => (
      <div key={name}>
        <dt>{visibleLine(name, 60)}</dt>
        <dd>
          <Theirs text={value} />
        </dd>
      </div>
    ))}
  </dl>
);

/** Sentences of the server on what the files lack or have unusual. */
export const Notes = ({ texts, title = "Note." }: { texts: readonly string[]; title?: string }) =>
  texts.length === 0 ? null : (
    <ul class="findings">
      {texts.map((text) => (
        <li key={text}>
          <b>{title} </b>
          <WithOptions text={sentence(visible(text))} />
        </li>
      ))}
    </ul>
  );

/** So much room, in pixels, a tip above its mark needs. */
const TIP_ROOM = 60;

/** Whether a tip fits above a mark: in the window, and below the title of its figure. */
const fitsAbove = (mark: Element, top: number): boolean => {
  const chart = mark.closest(".figure")?.querySelector("svg");
  return top - Math.max(0, chart?.getBoundingClientRect().top ?? 0) > TIP_ROOM;
};

/** Shows `data-tip` of what the pointer or the focus is on. */
export const Tip = () => {
  const [tip, setTip] = useState<{ text: string; x: number; y: number; above: boolean } | null>(null);
  useEffect(() => {
    // Null while the focus decides.
    let pointer: { x: number; y: number } | null = null;
    let mark: Element | null = null;
    const show = (target: Element | null) => {
      mark = target?.closest?.("[data-tip]") ?? null;
      if (!mark) {
        setTip(null);
        return;
      }
      const box = mark.getBoundingClientRect();
      const above = fitsAbove(mark, box.top);
      const x = pointer ? pointer.x : box.left + box.width / 2;
      const y = above ? box.top - 6 : pointer ? pointer.y + 24 : box.bottom + 8;
      setTip({ text: mark.getAttribute("data-tip") ?? "", x, y, above });
    };
    const over = (event: Event) => {
      pointer = event instanceof MouseEvent ? { x: event.clientX, y: event.clientY } : null;
      show(event.target as Element | null);
    };
    // Focus and late contents scroll a page by themselves: the tip stays with its mark.
    const scrolled = () => mark && show(pointer ? document.elementFromPoint(pointer.x, pointer.y) : document.activeElement);
    const escaped = (event: KeyboardEvent) => event.key === "Escape" && show(null);
    document.addEventListener("pointerover", over);
    document.addEventListener("focusin", over);
    document.addEventListener("scroll", scrolled, { capture: true, passive: true });
    document.addEventListener("keydown", escaped);
    return () => {
      document.removeEventListener("pointerover", over);
      document.removeEventListener("focusin", over);
      document.removeEventListener("scroll", scrolled, { capture: true });
      document.removeEventListener("keydown", escaped);
    };
  }, []);
  const element = useRef<HTMLDivElement>(null);
  useLayoutEffect(() => {
    if (!tip || !element.current) return;
    const half = element.current.offsetWidth / 2 + 8;
    element.current.style.left = `${Math.max(half, Math.min(tip.x, innerWidth - half))}px`;
  }, [tip]);
  if (!tip) return null;
  return (
    <div ref={element} id="tip" aria-hidden="true" class={tip.above ? "above" : "below"} style={{ top: `${tip.y}px` }}>
      {tip.text}
    </div>
  );
};
