// Texts, contents and pictures of a session as blocks, whose whole is loaded when somebody wants it.

import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";

import { type Page, sentence, usePage } from "./page_state";
import { Python } from "./python";
import type { PictureEntry, Text } from "./session_json";
import { count, cutLines, escaped, Line, visible } from "./visible";

const FIRST_LINES = 60;

/** A text in a fixed-width box, whose whole is loaded when it is wanted. */
export function TextBlock({
  text,
  kind = "plain",
  label,
  first = FIRST_LINES,
}: {
  text: Text | string;
  kind?: "plain" | "python";
  label: string;
  first?: number;
}): JSX.Element {
  const page = usePage();
  const entry: Text = typeof text === "string" ? { text } : text;
  const [most, setMost] = useState(first);
  const [whole, setWhole] = useState<string | null>(() => loadedText(page, entry));
  const [problem, setProblem] = useState("");
  useEffect(() => {
    setWhole(loadedText(page, entry));
    setMost(first);
    setProblem("");
  }, [entry.digest, entry.text, first]);
  const known = whole ?? entry.text;
  const cut = cutLines(known, most);
  const partly = whole === null && entry.digest;
  const more = async (): Promise<void> => {
    try {
      if (partly) setWhole(await page.whole(entry));
      setMost(most * 10);
    } catch (error) {
      setProblem(sentence(error));
    }
  };
  return (
    <div class="block">
      <pre tabIndex={0} role="group" aria-label={label}>
        {kind === "python" ? <Python source={cut.text} /> : visible(cut.text)}
      </pre>
      {(cut.isCut || partly) && (
        <button type="button" class="more" onClick={() => void more()}>
          {partly ? `Show more of ${count(entry.size ?? 0, "character")}` : `Show more of ${count(cut.lines, "line")}`}
        </button>
      )}
      {problem && <p class="refusal">{problem}</p>}
    </div>
  );
}

function loadedText(page: Page, text: Text): string | null {
  if (!text.digest) return text.text;
  return page.loaded(text.digest)?.text ?? null;
}

/** A content by its digest. */
export function ContentBlock({ digest, label, kind = "plain" }: { digest: string; label: string; kind?: "plain" | "python" }): JSX.Element {
  const page = usePage();
  const [problem, setProblem] = useState("");
  const content = page.loaded(digest);
  useEffect(() => {
    if (content) return;
    let wanted = true;
    page.content(digest).then(
      () => wanted && page.changed(),
      (error: unknown) => wanted && setProblem(sentence(error)),
    );
    return () => {
      wanted = false;
    };
  }, [digest, content]);
  if (problem) return <p class="refusal">{problem}</p>;
  if (!content) return <p class="quiet">Loading</p>;
  if (content.text === undefined) return <p class="quiet">{visible(content.left_out ?? "Not a text.")}</p>;
  return <TextBlock text={content.text} label={label} kind={kind} />;
}

export function Picture({ picture }: { picture: PictureEntry }): JSX.Element {
  const page = usePage();
  const { digest } = picture;
  const content = digest ? page.loaded(digest) : undefined;
  useEffect(() => {
    if (digest && !content) page.content(digest).then(() => page.changed(), () => undefined);
  }, [digest, content]);
  const type = content?.media_type ?? picture.media_type ?? "";
  const size = picture.width ? `${picture.width} \u00d7 ${picture.height}` : "";
  if (content?.data && ["image/png", "image/jpeg"].includes(type)) {
    return (
      <figure>
        <img src={`data:${type};base64,${content.data}`} alt={escaped(picture.name) || "Picture"} width={picture.width} height={picture.height} />
        <figcaption class="quiet">
          <Line text={picture.name} /> {size}
        </figcaption>
      </figure>
    );
  }
  const why = picture.problem ?? content?.left_out ?? "";
  return (
    <p class="quiet">
      Picture <Line text={picture.name} /> {size} {why && <Line text={why} />}
    </p>
  );
}
