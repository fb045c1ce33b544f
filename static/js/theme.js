// Runs before the first paint: applies the stored choice of light, dark or system.
(() => {
  const KEY = "pkb-theme";
  const root = document.documentElement;
  const stored = () => {
    try {
      return localStorage.getItem(KEY) ?? "system";
    } catch {
      return "system"; // storage is switched off: follow the system
    }
  };
  const apply = (theme) => {
    if (theme === "system") root.removeAttribute("data-theme");
    else root.setAttribute("data-theme", theme);
  };
  apply(stored());
  root.classList.add("has-js");

  document.addEventListener("DOMContentLoaded", () => {
    const toggle = document.querySelector("[data-theme-toggle]");
    if (!toggle) return;
    const order = ["system", "light", "dark"];
    const show = (theme) => {
      const next = order[(order.indexOf(theme) + 1) % order.length];
      toggle.title = `Colours: ${theme}. Switch to ${next}.`;
      toggle.querySelector("[data-theme-name]").textContent = `Colours: ${theme}. Switch to ${next}.`;
      for (const icon of toggle.querySelectorAll("[data-theme-icon]")) icon.toggleAttribute("hidden", icon.dataset.themeIcon !== theme);
    };
    show(stored());
    toggle.hidden = false;
    toggle.addEventListener("click", () => {
      const next = order[(order.indexOf(stored()) + 1) % order.length];
      try {
        localStorage.setItem(KEY, next);
      } catch {
        // the choice lasts for this page only
      }
      apply(next);
      show(next);
      document.dispatchEvent(new CustomEvent("pkb:theme"));
    });
  });
})();
