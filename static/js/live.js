// Live parts: conditional polling, the spoken status, ticking clocks, copy buttons and confirmations.
(() => {
  // A poll says which state it already shows; the server answers 304 and nothing is swapped or announced.
  document.addEventListener("htmx:configRequest", (event) => {
    const etag = event.target.dataset?.etag;
    if (etag) event.detail.headers["If-None-Match"] = etag;
  });

  const announce = () => {
    const status = document.getElementById("live-status");
    const now = document.querySelector("[data-status]")?.dataset.status;
    if (status && now && status.textContent !== now) status.textContent = now;
  };
  document.addEventListener("htmx:afterSwap", announce);

  const clock = (seconds) => {
    const minutes = Math.floor(seconds / 60);
    return minutes ? `${minutes} min ${seconds % 60} s` : `${seconds} s`;
  };
  const tick = () => {
    for (const element of document.querySelectorAll("time[data-since]")) {
      const elapsed = Math.max(0, Math.round((Date.now() - Date.parse(element.dataset.since)) / 1000));
      const text = clock(elapsed);
      if (element.textContent !== text) element.textContent = text;
    }
  };
  setInterval(tick, 1000);
  document.addEventListener("htmx:afterSwap", tick);
  tick();

  document.addEventListener("click", async (event) => {
    const button = event.target.closest("[data-copy]");
    if (!button) return;
    await navigator.clipboard.writeText(document.querySelector(button.dataset.copy).textContent.trim());
    const label = button.textContent;
    button.textContent = "Copied";
    setTimeout(() => { button.textContent = label; }, 1600);
  });

  document.addEventListener("submit", (event) => {
    const question = event.submitter?.dataset.confirm ?? event.target.dataset.confirm;
    if (question && !window.confirm(question)) event.preventDefault();
  });

  // Filters apply as soon as a choice changes; the button stays for keyboards and for pages without scripts.
  document.addEventListener("change", (event) => {
    if (event.target.matches("form[data-auto] select")) event.target.form.requestSubmit();
  });
})();
