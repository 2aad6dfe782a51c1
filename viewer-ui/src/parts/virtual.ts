// A window over a long list: only what is near the view is in the page.

import {
  measureElement,
  observeWindowOffset,
  observeWindowRect,
  Virtualizer,
  type VirtualizerOptions,
  windowScroll,
} from "@tanstack/virtual-core";
import type { RefObject } from "preact";
import { useCallback, useEffect, useLayoutEffect, useReducer, useRef, useState } from "preact/hooks";

/** The header of the page stays at its top; an item that is gone to stands below it, in pixels. */
const UNDER_HEADER = 56;

/** What a reader does to move the page on their own. */
const MOVES = ["wheel", "touchmove", "pointerdown", "keydown"] as const;

/** Goes to an item and stays there while what is above it is read and measured, until the reader moves. */
export const useGoal = (view: Virtualizer<Window, Element>, list: RefObject<HTMLElement | null>): ((at: number) => void) => {
  const goal = useRef<{ at: number; offset: number | null } | null>(null);
  const [, redraw] = useReducer((turn: number) => turn + 1, 0);
  useEffect(() => {
    const forget = () => {
      goal.current = null;
    };
    for (const move of MOVES) addEventListener(move, forget, { capture: true, passive: true });
    return () => {
      for (const move of MOVES) removeEventListener(move, forget, { capture: true });
    };
  }, []);
  useLayoutEffect(() => {
    if (!goal.current) return;
    const { at, offset } = goal.current;
    const [next] = view.getOffsetForIndex(at, "start") ?? [offset];
    if (next !== offset) {
      goal.current.offset = next;
      view.scrollToIndex(at, { align: "start" });
    }
    const element = list.current?.querySelector<HTMLElement>(`[data-index="${at}"]`);
    if (element && !element.contains(document.activeElement)) element.focus({ preventScroll: true });
  });
  return useCallback((at: number) => {
    goal.current = { at, offset: null };
    redraw(0);
  }, []);
};

export const useWindow = (count: number, scrollMargin: number, estimate: (at: number) => number): Virtualizer<Window, Element> => {
  const [, redraw] = useReducer((turn: number) => turn + 1, 0);
  const options: VirtualizerOptions<Window, Element> = {
    count,
    estimateSize: estimate,
    scrollMargin,
    scrollPaddingStart: UNDER_HEADER,
    overscan: 6,
    getScrollElement: () => window,
    initialOffset: () => scrollY,
    initialRect: { width: innerWidth, height: innerHeight },
    observeElementRect: observeWindowRect,
    observeElementOffset: observeWindowOffset,
    scrollToFn: windowScroll,
    measureElement,
    onChange: () => redraw(0),
  };
  const [virtualizer] = useState(() => new Virtualizer(options));
  virtualizer.setOptions(options);
  useLayoutEffect(() => virtualizer._didMount(), [virtualizer]);
  useLayoutEffect(() => virtualizer._willUpdate());
  return virtualizer;
};
