// The author's workbench: code editor, starter templates, dropped files, a draft kept in this browser, what the chosen profile
// can judge, the tabs beside the editor, and the verdict's marks in it.
(async () => {
  const form = document.querySelector("form[data-submit]");
  if (!form) return;
  const textarea = form.querySelector("textarea[name=source]");
  const file = form.querySelector("input[type=file]");
  const backend = form.elements.backend;
  const profile = form.elements.profile;
  const { filesOf, membersOf, rooted } = await import(form.dataset.filesSrc);
  const data = JSON.parse(document.getElementById("submit-data").textContent);
  const starters = JSON.parse(document.getElementById("starters").textContent);
  const note = document.getElementById("profile-note");
  const box = form.querySelector(".editor-box");
  const button = document.getElementById("desk-submit");
  let keep = () => {};

  let editor = null;
  try {
    const { attach } = await import(form.dataset.editorSrc);
    editor = attach(textarea, {
      nonce: form.dataset.nonce,
      describedBy: "source-help",
      onChange: () => keep(),
      onSubmit: () => { if (!button.disabled) form.requestSubmit(button); },
    });
    // The label and the links of the error list lead to the editor from here on.
    const { id } = textarea;
    textarea.removeAttribute("id");
    box.querySelector(".cm-content").id = id;
    form.querySelector(`label[for="${id}"]`).addEventListener("click", () => editor.focus());
  } catch (error) {
    console.error("The code editor could not be loaded. Use the plain text field.", error);
    textarea.addEventListener("input", () => keep());
  }
  const text = () => (editor ? editor.text() : textarea.value);
  const replace = (value) => { if (editor) editor.replace(value); else textarea.value = value; };

  const isStarter = (value) => !value.trim() || Object.values(starters).includes(value);
  backend.addEventListener("change", () => { if (isStarter(text())) replace(starters[backend.value]); });
  form.querySelector("[data-load-starter]")?.addEventListener("click", () => {
    if (isStarter(text()) || window.confirm("Replace the editor's text with the starter template?")) {
      replace(starters[backend.value]);
      editor?.focus();
    }
  });
  form.querySelector("[data-copy-editor]")?.addEventListener("click", async ({ currentTarget }) => {
    await navigator.clipboard.writeText(text());
    const label = currentTarget.querySelector("span");
    label.textContent = "Copied";
    setTimeout(() => { label.textContent = "Copy"; }, 1600);
  });

  // A draft per problem, in this browser alone. One that was asked for by address is shown as it is.
  const KEY = `pkb-draft:${form.dataset.submit}`;
  const notice = document.getElementById("draft-note");
  const storage = {
    read: () => { try { return JSON.parse(localStorage.getItem(KEY)); } catch { return null; } },
    write: (value) => { try { localStorage.setItem(KEY, JSON.stringify(value)); } catch { /* storage is switched off or full */ } },
    drop: () => { try { localStorage.removeItem(KEY); } catch { /* there was none */ } },
  };
  const shown = text();
  const draft = storage.read();
  if (draft && draft.text !== shown && !("isGiven" in form.dataset) && isStarter(shown)) {
    if (draft.backend in starters) backend.value = draft.backend;
    replace(draft.text);
    notice.querySelector("span").textContent = `Your draft of ${new Date(draft.at).toISOString().slice(0, 16).replace("T", " ")} UTC was restored.`;
    notice.hidden = false;
  }
  form.querySelector("[data-drop-draft]").addEventListener("click", () => {
    storage.drop();
    replace(starters[backend.value]);
    notice.hidden = true;
  });
  let timer = 0;
  keep = () => {
    clearTimeout(timer);
    timer = setTimeout(() => {
      if (isStarter(text())) storage.drop();
      else storage.write({ text: text(), backend: backend.value, at: Date.now() });
      form.dataset.draft = storage.read() ? "kept" : "none";
    }, 300);
  };

  // solution.py is opened in the editor, other sources go beside it, and an archive is sent as it is in place of both.
  const listing = document.getElementById("desk-files");
  const field = form.elements.beside;
  let beside = JSON.parse(field.value || "null") ?? {};
  const list = (words, rows) => {
    listing.hidden = !words;
    box.classList.toggle("is-replaced", Boolean(file.value));
    listing.querySelector("p").textContent = words;
    listing.querySelector("ul").replaceChildren(...rows.map(([path, bytes, drop]) => {
      const row = document.createElement("li");
      row.append(Object.assign(document.createElement("code"), { textContent: path }), bytes < 1024 ? ` ${bytes} B ` : ` ${(bytes / 1024).toFixed(1)} KB `);
      if (drop) {
        const remove = Object.assign(document.createElement("button"), { type: "button", className: "button button--small", textContent: "Remove" });
        remove.setAttribute("aria-label", `Remove ${path}`);
        remove.addEventListener("click", drop);
        row.append(remove);
      }
      return row;
    }));
  };
  const dropArchive = () => { file.value = ""; showBeside(); };
  const showBeside = (note = "") => {
    field.value = Object.keys(beside).length ? JSON.stringify(beside) : "";
    const rows = Object.entries(beside).map(([path, content]) => [path, new Blob([content]).size, () => { delete beside[path]; showBeside(); }]);
    list([note, rows.length ? "Submitted with solution.py:" : ""].filter(Boolean).join(" "), rows);
  };
  const take = async (found) => {
    const archive = found.find(({ path }) => /\.zip$/i.test(path));
    const bytes = found.reduce((sum, each) => sum + each.file.size, 0);
    const whole = archive ?? (found.length === 1 && bytes > data.maxBytes ? found[0] : null);
    if (whole) {
      const one = new DataTransfer();
      one.items.add(whole.file);
      file.files = one.files;
      const members = archive ? await membersOf(archive.file) : [];
      const holds = members?.length ? " It holds:" : "";
      list(
        members ? `${whole.path} will be submitted instead of the editor's text.${holds}` : `${whole.path} cannot be read as an archive. The site will refuse it.`,
        [...(members ?? []).map(({ path, bytes: size }) => [path, size]), [whole.path, whole.file.size, dropArchive]],
      );
      return;
    }
    file.value = "";
    const { entry, others, refused } = rooted(found);
    if (bytes > data.maxBytes) { showBeside(`These files have ${Math.ceil(bytes / 1024)} KB. At most ${data.maxBytes / 1024} KB in all are accepted.`); return; }
    if (entry) replace(await entry.file.text());
    for (const { path, file: each } of others) beside[path] = await each.text();
    showBeside([
      entry ? `${entry.path} was opened in the editor.` : "",
      refused.length ? `Left out, because only .py .cu .cuh .cpp .h are accepted: ${refused.map(({ path }) => path).join(", ")}.` : "",
    ].join(" ").trim());
  };
  file.multiple = true;
  file.accept += ",.cu,.cuh,.cpp,.h";
  file.addEventListener("change", () => take([...file.files].map((each) => ({ path: each.name, file: each }))));
  box.addEventListener("dragover", (event) => { event.preventDefault(); box.classList.add("is-over"); });
  box.addEventListener("dragleave", () => box.classList.remove("is-over"));
  box.addEventListener("drop", async (event) => {
    box.classList.remove("is-over");
    if (!event.dataTransfer?.files.length) return;
    event.preventDefault();
    event.stopPropagation();
    take(await filesOf(event.dataTransfer));
  }, true);
  showBeside();

  const judge = () => {
    const chosen = data.profiles[profile.value];
    const refused = !chosen.backends.includes(backend.value);
    note.textContent = refused
      ? `${chosen.title} cannot judge the backend ${backend.value}; it can judge ${chosen.backends.join(", ")}. Choose another backend or profile.`
      : chosen.note;
    note.parentElement.classList.toggle("is-odd", refused || !chosen.online);
    const [other] = Object.entries(data.profiles).filter(([, each]) => each.online && each.backends.includes(backend.value)).at(-1) ?? [];
    checkFirst.hidden = chosen.online || !other;
    checkFirst.querySelector("span").textContent = other ?? "";
  };
  const checkFirst = document.getElementById("check-first");
  checkFirst.addEventListener("click", () => {
    profile.value = checkFirst.querySelector("span").textContent;
    form.elements.mode.value = "check";
    judge();
    profile.focus();
  });
  profile.addEventListener("change", judge);
  backend.addEventListener("change", judge);
  judge();

  // "path:line:kind:why", one to a line: the lines that a verdict is about, and those at which ranks wait.
  const tabs = [...document.querySelectorAll(".desk-tabs [role=tab]")];
  const open = (name, { focus = false } = {}) => {
    for (const tab of tabs) {
      const isOpen = tab.id === `tab-${name}`;
      tab.setAttribute("aria-selected", isOpen);
      tab.tabIndex = isOpen ? 0 : -1;
      document.getElementById(tab.getAttribute("aria-controls")).hidden = !isOpen;
      if (isOpen && focus) tab.focus();
    }
    if (name === "changes") document.querySelector("[data-show-changes]").click();
  };
  for (const [place, tab] of tabs.entries()) {
    tab.addEventListener("click", () => open(tab.id.slice(4)));
    tab.addEventListener("keydown", ({ key }) => {
      const step = { ArrowRight: 1, ArrowLeft: -1 }[key];
      if (step) open(tabs.at((place + step) % tabs.length).id.slice(4), { focus: true });
    });
  }
  open("statement");

  const mark = (marks) => {
    const lines = (marks ?? "").split("\n").map((each) => each.match(/^solution\.py:(\d+):\w+:(.*)$/)).filter(Boolean);
    editor?.mark(lines.map(([, line, title]) => ({ line: Number(line), title })));
  };
  mark(form.dataset.marks);
  const verdict = document.getElementById("verdict");
  document.addEventListener("htmx:beforeSwap", (event) => {
    const { target } = event.detail;
    if (target !== verdict && target.id !== "changes") return;
    // Some refusals are whole pages, such as that of a body that is too large: their words belong below the editor.
    if (/^\s*<!doctype/i.test(event.detail.serverResponse)) event.detail.selectOverride = "#main .wrap > *";
    if (event.detail.xhr.status >= 400 && event.detail.xhr.status < 500) Object.assign(event.detail, { shouldSwap: true, isError: false });
  });
  // The state stands beside the button, which stays in sight, and leads to the result.
  const state = document.getElementById("desk-state");
  const toResult = () => {
    open("result");
    const side = document.querySelector(".desk-side");
    side.scrollTo(0, 0);
    side.scrollIntoView({ block: "nearest" });
  };
  state.addEventListener("click", toResult);
  const say = (words) => { state.textContent = words; state.hidden = !words; };
  document.addEventListener("htmx:afterSettle", (event) => {
    if (event.target.id === "verdict") toResult();
    const live = document.getElementById("live");
    if (live) mark(live.dataset.marks);
    if (event.target.id === "verdict" || event.target.id === "live") say(live ? live.dataset.state : "Not accepted: see the result");
  });
  document.addEventListener("htmx:beforeRequest", (event) => { if (event.target === form) { mark(""); say("Sending"); } });
  verdict.addEventListener("click", (event) => {
    const place = event.target.closest("a")?.getAttribute("href")?.match(/^#solution\.py-L(\d+)$/);
    if (!place || !editor) return;
    event.preventDefault();
    editor.go(Number(place[1]));
  });
})();
