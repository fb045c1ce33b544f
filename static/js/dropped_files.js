// What was dropped or chosen: the files of folders, where a submission's root is among them, and what an archive holds.

const SOURCE = /\.(py|cu|cuh|cpp|h)$/;
const MOST = 200;

// The files of a drop, those of folders with their paths; at most MOST.
export const filesOf = async (transfer) => {
  const entries = [...transfer.items].map((item) => item.webkitGetAsEntry?.()).filter(Boolean);
  if (!entries.length) return [...transfer.files].map((file) => ({ path: file.name, file }));
  const found = [];
  const walk = async (entry) => {
    if (found.length >= MOST) return;
    if (entry.isFile) {
      found.push({ path: entry.fullPath.replace(/^\//, ""), file: await new Promise((done, fail) => entry.file(done, fail)) });
      return;
    }
    const reader = entry.createReader();
    for (;;) {
      const some = await new Promise((done, fail) => reader.readEntries(done, fail));
      if (!some.length) return;
      for (const each of some) await walk(each);
    }
  };
  for (const entry of entries) await walk(entry);
  return found;
};

// The program among `found`, the other sources by their paths from its folder, and what is no source. A single file of Python
// is the program under any name.
export const rooted = (found) => {
  const sources = found.filter(({ path }) => SOURCE.test(path));
  const refused = found.filter(({ path }) => !SOURCE.test(path));
  const named = sources.filter(({ path }) => path.split("/").at(-1) === "solution.py");
  const entry = named.sort((one, other) => one.path.length - other.path.length)[0]
    ?? (sources.length === 1 && sources[0].path.endsWith(".py") ? sources[0] : null);
  const root = entry ? entry.path.slice(0, entry.path.lastIndexOf("/") + 1) : "";
  const others = sources.filter((each) => each !== entry)
    .map(({ path, file }) => ({ path: path.startsWith(root) ? path.slice(root.length) : path, file }));
  return { entry, others, refused };
};

// Names and sizes of an archive's files, from its central directory; null where there is none.
export const membersOf = async (archive) => {
  const view = new DataView(await archive.arrayBuffer());
  let end = view.byteLength - 22;
  while (end >= 0 && view.getUint32(end, true) !== 0x06054b50) end -= 1;
  if (end < 0) return null;
  const members = [];
  let at = view.getUint32(end + 16, true);
  for (let left = Math.min(view.getUint16(end + 10, true), MOST); left > 0; left -= 1) {
    if (at + 46 > end || view.getUint32(at, true) !== 0x02014b50) return null;
    const length = view.getUint16(at + 28, true);
    const path = new TextDecoder().decode(new Uint8Array(view.buffer, at + 46, length));
    if (!path.endsWith("/")) members.push({ path, bytes: view.getUint32(at + 24, true) });
    at += 46 + length + view.getUint16(at + 30, true) + view.getUint16(at + 32, true);
  }
  return members;
};
