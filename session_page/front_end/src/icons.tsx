// Small pictures. Each status has a shape of its own, so colour is never the only difference.

import type { JSX } from "preact";

const PATHS = {
  ok: "M3.5 8.5l3 3 6-7",
  error: "M4 4l8 8M12 4l-8 8",
  timeout: "M8 4.5V8l2.5 1.8M8 2a6 6 0 1 0 0 12A6 6 0 0 0 8 2",
  cancelled: "M4 12L12 4M8 2a6 6 0 1 0 0 12A6 6 0 0 0 8 2",
  running: "M8 2a6 6 0 1 1-6 6",
  none: "M4 8h8",
  branch: "M4.5 5.6v4.8M4.5 9.2c0-2.2 7-.8 7-3.6M6 4.1a1.5 1.5 0 1 1-3 0a1.5 1.5 0 1 1 3 0M6 11.9a1.5 1.5 0 1 1-3 0a1.5 1.5 0 1 1 3 0M13 4.1a1.5 1.5 0 1 1-3 0a1.5 1.5 0 1 1 3 0",
  rewind: "M3 8a5 5 0 1 1 1.6 3.7M3 4.2V8h3.8",
  edit: "M3 13l.8-3L10.5 3.3l2.2 2.2L6 12.2z",
  replay: "M5 3.2l7.5 4.8L5 12.8z",
  prompt: "M2.5 3.5h11v7.5h-6L4.5 13.5V11h-2z",
  file: "M4 2h5l3 3v9H4zM9 2v3h3",
  split: "M5 3v10M11 3v10M2.5 8h3M10.5 8h3",
  search: "M7 2.5a4.5 4.5 0 1 0 0 9a4.5 4.5 0 0 0 0-9M10.4 10.4l3.1 3.1",
  close: "M4 4l8 8M12 4l-8 8",
  back: "M9.5 3.5L5 8l4.5 4.5",
  copy: "M5.5 5.5h8v8h-8zM10.5 5.5v-3h-8v8h3",
  sun: "M8 5a3 3 0 1 0 0 6a3 3 0 0 0 0-6M8 1.2v1.6M8 13.2v1.6M1.2 8h1.6M13.2 8h1.6M3.2 3.2l1.1 1.1M11.7 11.7l1.1 1.1M12.8 3.2l-1.1 1.1M4.3 11.7l-1.1 1.1",
  moon: "M13 9.5A5.5 5.5 0 0 1 6.5 3a5.5 5.5 0 1 0 6.5 6.5",
  help: "M6 6.2a2 2 0 1 1 2.8 1.8c-.6.3-.8.7-.8 1.3M8 11.6v.2M8 2a6 6 0 1 0 0 12A6 6 0 0 0 8 2",
  stop: "M4.5 4.5h7v7h-7z",
  warn: "M8 2.5L14 13H2zM8 6.5v3M8 11v.2",
} as const;

export type IconName = keyof typeof PATHS;

/** An icon; without a title it is only decoration. */
export function Icon({ name, title, className = "" }: { name: IconName; title?: string; className?: string }): JSX.Element {
  return (
    <svg class={`icon icon-${name} ${className}`} viewBox="0 0 16 16" width="16" height="16" {...(title ? { role: "img", "aria-label": title } : { "aria-hidden": "true" })}>
      {title && <title>{title}</title>}
      <path d={PATHS[name]} fill="none" stroke="currentColor" stroke-width="1.6" stroke-linecap="round" stroke-linejoin="round" />
    </svg>
  );
}
