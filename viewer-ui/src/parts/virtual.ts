// A window over a long list: only what is near the view is in the page.

import {
  measureElement,
  observeWindowOffset,
  observeWindowRect,
  Virtualizer,
  type VirtualizerOptions,
  windowScroll,
} from "@tanstack/virtual-core";
import { useLayoutEffect, useReducer, useState } from "preact/hooks";

export const useWindow = (count: number, scrollMargin: number, estimate: (at: number) => number): Virtualizer<Window, Element> => {
  const [, redraw] = useReducer((turn: number) => turn + 1, 0);
  const options: VirtualizerOptions<Window, Element> = {
    count,
    estimateSize: estimate,
    scrollMargin,
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
