// The colour spaces in which browsers report colours and plotly.js computes, instead of all that culori knows.
import { modeHsl, modeLrgb, modeRgb, useMode } from "culori/fn";

useMode(modeRgb);
useMode(modeLrgb);
useMode(modeHsl);
export { converter, formatHex, formatRgb, wcagContrast, wcagLuminance } from "culori/fn";
