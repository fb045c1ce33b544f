// What our figures use of plotly.js: scatter and bar traces, error bars, legend, hover, zoom and pictures.
import bar from "plotly.js/src/traces/bar/index.js";
import downloadImage from "plotly.js/src/snapshot/download.js";
import errorBars from "plotly.js/src/components/errorbars/index.js";
import fx from "plotly.js/src/components/fx/index.js";
import english from "plotly.js/src/locale-en.js";
import american from "plotly.js/src/locale-en-us.js";
import legend from "plotly.js/src/components/legend/index.js";
import plots from "plotly.js/src/plot_api/plot_api.js";
import registry from "plotly.js/src/registry.js";
import scatter from "plotly.js/src/traces/scatter/index.js";
import toImage from "plotly.js/src/plot_api/to_image.js";

// Others read these components' part of the layout, so it has to be there.
const absent = {
  shapes: { moduleType: "component", name: "shapes", supplyLayoutDefaults: (_given, layout) => { layout.shapes = []; } },
  modebar: { moduleType: "component", name: "modebar", supplyLayoutDefaults: (_given, layout) => { layout.modebar = { orientation: "h" }; } },
};
// Parts of the library call each other by these names.
for (const [name, fn] of Object.entries({ ...plots, toImage, downloadImage })) {
  registry.register({ moduleType: "apiMethod", name, fn });
}
registry.register([scatter, bar, errorBars, legend, fx, absent.shapes, absent.modebar, english, american]);
window.Plotly = { newPlot: plots.newPlot, react: plots.react, downloadImage };
