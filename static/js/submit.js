// The author's workbench: code editor, starter templates, dropped files, a draft kept in this browser, what the chosen profile
// can judge, and the verdict's marks in the editor.
(async () => {
  const form = document.querySelector("form[data-submit]");
  if (!form) return;
  const textarea = form.querySelector("textarea[name=source]");
  const file = form.querySelector("input[type=file]");
  const backend = form.elements.backend;
  const profile = form.elements.profile;
  const data = JSON.parse(document.getElementById("submit-data").textContent);
  const starters = JSON.parse(document.getElementById("starters").textContent);
  const note = document.getElementById("profile-note");
  const box = form.querySelector(".editor-box");
  const button = form.querySelector("button[type=submit]");
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
    notice.querySelector("span").textContent = `Your draft of ${new Date(draft.at).toLocaleString()} was restored.`;
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

  // One file of Python is opened in the editor; anything else is sent as it is.
  const show = document.getElementById("file-note");
  const opened = async () => {
    const [chosen] = file.files;
    if (!chosen) { show.textContent = ""; return; }
    if (chosen.name.endsWith(".py") && chosen.size <= data.maxBytes) {
      replace(await chosen.text());
      file.value = "";
      show.textContent = `${chosen.name} was opened in the editor.`;
    } else {
      show.textContent = `${chosen.name} will be submitted instead of the editor's text.`;
    }
  };
  file.addEventListener("change", opened);
  box.addEventListener("dragover", (event) => event.preventDefault());
  box.addEventListener("drop", (event) => {
    if (!event.dataTransfer?.files.length) return;
    event.preventDefault();
    event.stopPropagation();
    file.files = event.dataTransfer.files;
    opened();
  }, true);

  const judge = () => {
    const chosen = data.profiles[profile.value];
    const refused = !chosen.backends.includes(backend.value);
    note.textContent = refused
      ? `${chosen.title} cannot judge the backend ${backend.value}; it can judge ${chosen.backends.join(", ")}. Choose another backend or profile.`
      : chosen.note;
    note.parentElement.classList.toggle("is-odd", refused || !chosen.online);
  };
  profile.addEventListener("change", judge);
  backend.addEventListener("change", judge);
  judge();

  // "path:line:kind:why", one to a line: the lines that a verdict is about, and those at which ranks wait.
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
  document.addEventListener("htmx:afterSettle", (event) => {
    if (event.target.id === "verdict") event.target.scrollIntoView({ block: "nearest" });
    const live = document.getElementById("live");
    if (live) mark(live.dataset.marks);
  });
  document.addEventListener("htmx:beforeRequest", (event) => { if (event.target === form) mark(""); });
  verdict.addEventListener("click", (event) => {
    const place = event.target.closest("a")?.getAttribute("href")?.match(/^#solution\.py-L(\d+)$/);
    if (!place || !editor) return;
    event.preventDefault();
    editor.go(Number(place[1]));
  });
  document.querySelector("[data-changes]")?.addEventListener("toggle", (event) => {
    if (event.target.open) event.target.querySelector("[data-show-changes]").click();
  });
})();
