// Counts down to the moment in `datetime`; without it the page says the time left as of its loading.
(() => {
  const text = (seconds) => {
    if (seconds <= 0) return "now";
    const days = Math.floor(seconds / 86400);
    const two = (number) => String(Math.floor(number)).padStart(2, "0");
    const clock = `${two((seconds % 86400) / 3600)}:${two((seconds % 3600) / 60)}:${two(seconds % 60)}`;
    return days ? `${days} d ${clock}` : clock;
  };
  const tick = () => {
    for (const each of document.querySelectorAll("[data-countdown]")) {
      each.textContent = text((Date.parse(each.dateTime) - Date.now()) / 1000);
    }
  };
  tick();
  setInterval(tick, 1000);
})();
