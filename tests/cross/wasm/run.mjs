// Runs a WebAssembly program: node run.mjs PROGRAM.wasm. Functions that the program was linked without stop it when they are
// called, except the registration of destructors of a thread, which ends with the process.
import {readFileSync} from 'node:fs';
import {WASI} from 'node:wasi';

const wasi = new WASI({version: 'preview1'});
const module = await WebAssembly.compile(readFileSync(process.argv[2]));
const env = {};
for (const {module: from, name} of WebAssembly.Module.imports(module)) {
  if (from === 'env') env[name] = () => { if (name !== '__cxa_thread_atexit') throw new Error(`${name} was called`); return 0; };
}
process.exitCode = wasi.start(await WebAssembly.instantiate(module, {wasi_snapshot_preview1: wasi.wasiImport, env}));
