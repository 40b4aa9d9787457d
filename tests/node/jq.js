// `jq [FLAGS] FILTER` over standard input, for machines without jq.
const jq = require("jq-wasm");
const words = process.argv.slice(2);
const filter = words.pop();
jq.raw(require("fs").readFileSync(0, "utf8"), filter, words).then((text) => console.log(text.trimEnd()));
