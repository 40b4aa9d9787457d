// Python source in colours: tokens of a grammar become elements with classes.

import { highlightTree, tagHighlighter, tags } from "@lezer/highlight";
import { parser } from "@lezer/python";
import type { ComponentChildren, JSX } from "preact";

import { visible } from "./visible";

const MOST = 100_000; // characters; a longer source is shown without colours

const CLASSES = tagHighlighter([
  { tag: tags.keyword, class: "t-keyword" },
  { tag: [tags.string, tags.special(tags.string)], class: "t-string" },
  { tag: tags.comment, class: "t-comment" },
  { tag: [tags.number, tags.bool, tags.null], class: "t-number" },
  { tag: [tags.function(tags.variableName), tags.function(tags.definition(tags.variableName)), tags.function(tags.propertyName)], class: "t-call" },
  { tag: [tags.definition(tags.className), tags.className], class: "t-call" },
]);

export function Python({ source }: { source: string }): JSX.Element {
  return <code class="python">{source.length > MOST ? visible(source) : coloured(source)}</code>;
}

function coloured(source: string): ComponentChildren[] {
  const parts: ComponentChildren[] = [];
  let end = 0;
  highlightTree(parser.parse(source), CLASSES, (from, to, classes) => {
    if (from > end) parts.push(visible(source.slice(end, from)));
    parts.push(<span class={classes}>{visible(source.slice(from, to))}</span>);
    end = to;
  });
  if (end < source.length) parts.push(visible(source.slice(end)));
  return parts;
}
