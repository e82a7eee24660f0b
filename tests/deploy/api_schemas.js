// Checks manifests with the API's own schemas, as the package kubernetes-models compiles them.
//
// usage: node api_schemas.js MODULES FILE...
//
// MODULES is the folder node_modules with kubernetes-models and js-yaml. A line for each breach;
// exit status 1 if there is one. The schemas allow unknown fields, which the API server drops with
// a warning: here a field that the validator never looks at is a breach, too.
"use strict";

const fs = require("fs");
const path = require("path");

const [modules, ...files] = process.argv.slice(2);
const load = (name) => require(path.join(path.resolve(modules), name));
const yaml = load("js-yaml");

/// The class of "apps/v1" and "DaemonSet".
function modelOf(document) {
  return load(`kubernetes-models/${document.apiVersion}`)[document.kind];
}

/// `value` behind a proxy that notes each field that is looked at in `seen`.
function watched(value, at, seen) {
  if (value === null || typeof value !== "object") return value;
  return new Proxy(value, {
    get(target, name) {
      const child = target[name];
      if (typeof name !== "string" || !Object.hasOwn(target, name)) return child;
      seen.add(`${at}/${name}`);
      return watched(child, `${at}/${name}`, seen);
    },
  });
}

function* fieldsOf(value, at) {
  if (value === null || typeof value !== "object") return;
  for (const [name, child] of Object.entries(value)) {
    yield `${at}/${name}`;
    yield* fieldsOf(child, `${at}/${name}`);
  }
}

function* breachesOf(document) {
  const model = modelOf(document);
  if (model === undefined) return yield `${document.apiVersion} has no kind ${document.kind}`;
  const seen = new Set();
  const content = new model(document);
  try {
    model.prototype.validate.call(watched(content, "", seen));
  } catch (error) {
    yield error.message;
  }
  // Below an unknown field nothing is looked at: it is named once.
  let unknown;
  for (const field of fieldsOf(content, "")) {
    if (seen.has(field) || (unknown && field.startsWith(unknown + "/"))) continue;
    unknown = field;
    yield `${field}: not a field of the API`;
  }
}

let count = 0;
let breaches = 0;
for (const file of files) {
  for (const document of yaml.loadAll(fs.readFileSync(file, "utf8"))) {
    if (!document) continue;
    ++count;
    for (const breach of breachesOf(document)) {
      console.log(`${file}: ${document.kind} ${document.metadata?.name}: ${breach}`);
      ++breaches;
    }
  }
}
console.log(`${count} objects, ${breaches} breaches`);
process.exit(breaches === 0 && count > 0 ? 0 : 1);
