// The submit form: code editor, starter templates, dropped files, and what the chosen profile can judge.
(async () => {
  const form = document.querySelector("form[data-submit]");
  if (!form) return;
  const textarea = form.querySelector("textarea[name=source]");
  const file = form.querySelector("input[type=file]");
  const backend = form.elements.backend;
  const profile = form.elements.profile;
  const data = JSON.parse(document.getElementById("submit-data").textContent);
  const note = document.getElementById("profile-note");
  const box = form.querySelector(".editor-box");

  let editor = null;
  try {
    const { attach } = await import(form.dataset.editorSrc);
    editor = attach(textarea, { nonce: form.dataset.nonce, describedBy: "source-help" });
    // The label and the links of the error list lead to the editor from here on.
    const { id } = textarea;
    textarea.removeAttribute("id");
    box.querySelector(".cm-content").id = id;
    form.querySelector(`label[for="${id}"]`).addEventListener("click", () => editor.focus());
  } catch (error) {
    console.error("The code editor could not be loaded; the plain field works as well.", error);
  }
  const text = () => (editor ? editor.text() : textarea.value);
  const replace = (value) => { if (editor) editor.replace(value); else textarea.value = value; };

  const isUntouched = () => !text().trim() || Object.values(data.starters).includes(text());
  backend.addEventListener("change", () => { if (isUntouched()) replace(data.starters[backend.value]); });
  form.querySelector("[data-load-starter]")?.addEventListener("click", () => {
    if (isUntouched() || window.confirm("Replace what is in the editor with the starter template?")) {
      replace(data.starters[backend.value]);
      editor?.focus();
    }
  });

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
      show.textContent = `${chosen.name} will be sent instead of what is in the editor.`;
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
    note.parentElement.parentElement.classList.toggle("notice--odd", Boolean(refused) || !chosen.online);
    note.parentElement.parentElement.classList.toggle("notice--info", !refused && chosen.online);
  };
  profile.addEventListener("change", judge);
  backend.addEventListener("change", judge);
  judge();

  // A second click or an impatient Enter sends nothing twice; the key makes the server agree.
  form.addEventListener("submit", () => {
    form.querySelector("button[type=submit]").disabled = true;
  });
  window.addEventListener("pageshow", () => { form.querySelector("button[type=submit]").disabled = false; });
})();
