// The submit page's code editor: CodeMirror 6 over the form's textarea, which stays the field that is sent.
import { defaultKeymap, history, historyKeymap, indentLess, insertTab } from "@codemirror/commands";
import { bracketMatching, HighlightStyle, indentOnInput, indentUnit, syntaxHighlighting } from "@codemirror/language";
import { cpp } from "@codemirror/lang-cpp";
import { python } from "@codemirror/lang-python";
import { highlightSelectionMatches, search, searchKeymap } from "@codemirror/search";
import { Compartment, EditorState, StateEffect, StateField } from "@codemirror/state";
import {
  Decoration,
  drawSelection,
  EditorView,
  highlightActiveLine,
  highlightActiveLineGutter,
  highlightSpecialChars,
  keymap,
  lineNumbers,
} from "@codemirror/view";
import { tags } from "@lezer/highlight";

// Colours come from the site's tokens, so the editor follows light and dark by itself.
const highlighting = HighlightStyle.define([
  { tag: [tags.keyword, tags.controlKeyword, tags.moduleKeyword], color: "var(--code-keyword)" },
  { tag: [tags.string, tags.special(tags.string)], color: "var(--code-string)" },
  { tag: [tags.number, tags.bool, tags.null], color: "var(--code-number)" },
  { tag: tags.comment, color: "var(--code-comment)", fontStyle: "italic" },
  { tag: [tags.function(tags.variableName), tags.definition(tags.function(tags.variableName))], color: "var(--code-function)" },
  { tag: [tags.className, tags.typeName, tags.standard(tags.variableName)], color: "var(--code-type)" },
  { tag: [tags.meta, tags.processingInstruction], color: "var(--code-meta)" },
  { tag: tags.invalid, color: "var(--danger)" },
]);

const theme = EditorView.theme({
  "&": { color: "var(--text)", backgroundColor: "var(--code-bg)", height: "100%" },
  ".cm-scroller": { fontFamily: "var(--font-mono)", fontSize: "0.8125rem", lineHeight: "1.55" },
  ".cm-content": { caretColor: "var(--text)" },
  ".cm-gutters": { backgroundColor: "var(--code-bg)", color: "var(--text-faint)", border: "none" },
  ".cm-activeLine, .cm-activeLineGutter": { backgroundColor: "var(--code-line)" },
  "&.cm-focused .cm-cursor": { borderLeftColor: "var(--text)" },
  "&.cm-focused > .cm-scroller > .cm-selectionLayer .cm-selectionBackground, .cm-selectionBackground": {
    backgroundColor: "var(--code-selection)",
  },
  ".cm-matchingBracket": { backgroundColor: "var(--code-selection)" },
  ".cm-failingLine": { backgroundColor: "var(--danger-bg)", boxShadow: "inset 3px 0 0 var(--danger)" },
  ".cm-panels": { backgroundColor: "var(--surface)", color: "var(--text)", borderColor: "var(--border)" },
  ".cm-textfield, .cm-button": {
    backgroundColor: "var(--surface)", backgroundImage: "none", color: "var(--text)", borderColor: "var(--border-strong)",
  },
});

// What is typed over a selection is put in by the editor itself: the browser would keep the look of the replaced words
// in a style attribute, which the Content-Security-Policy refuses and reports.
const typeOverSelection = EditorView.domEventHandlers({
  beforeinput(event, view) {
    if (event.inputType !== "insertText" || !event.data || event.isComposing) return false;
    if (view.state.selection.main.empty) return false;
    view.dispatch(view.state.replaceSelection(event.data), { userEvent: "input.type", scrollIntoView: true });
    event.preventDefault();
    return true;
  },
});

// Lines that a verdict names; each says why when pointed at, and loses its mark once it is edited.
const setMarks = StateEffect.define();
const marks = StateField.define({
  create: () => Decoration.none,
  update(shown, transaction) {
    let next = shown.map(transaction.changes);
    transaction.changes.iterChangedRanges((_from, _to, from, to) => {
      next = next.update({ filter: (start) => transaction.newDoc.lineAt(to).from < start || start < transaction.newDoc.lineAt(from).from });
    });
    for (const effect of transaction.effects) if (effect.is(setMarks)) next = Decoration.set(effect.value, true);
    return next;
  },
  provide: (field) => EditorView.decorations.from(field),
});

/**
 * Put an editor in place of `textarea`; returns an object with `text()`, `replace(text)`, `mark(lines)` and `go(line)`.
 * `onSubmit` hears Ctrl-Enter (Cmd-Enter on a Mac).
 */
export function attach(textarea, { nonce, describedBy, onChange, onSubmit }) {
  const language = new Compartment();
  const mirror = EditorView.updateListener.of((update) => {
    if (!update.docChanged) return;
    textarea.value = update.state.doc.toString();
    onChange?.();
  });
  const view = new EditorView({
    state: EditorState.create({
      doc: textarea.value,
      extensions: [
        EditorView.cspNonce.of(nonce),
        lineNumbers(),
        highlightActiveLine(),
        highlightActiveLineGutter(),
        highlightSpecialChars(),
        highlightSelectionMatches(),
        history(),
        drawSelection(),
        indentOnInput(),
        indentUnit.of("    "),
        bracketMatching(),
        search({ top: true }),
        typeOverSelection,
        marks,
        language.of(python()),
        syntaxHighlighting(highlighting),
        theme,
        EditorView.contentAttributes.of({ tabindex: "0", "aria-label": "Source of solution.py", "aria-describedby": describedBy }),
        // Escape, then Tab, leaves the editor, as the hint below it says.
        keymap.of([
          { key: "Mod-Enter", run: () => { onSubmit?.(); return true; } },
          { key: "Tab", run: insertTab, shift: indentLess },
          ...defaultKeymap, ...historyKeymap, ...searchKeymap,
        ]),
        mirror,
      ],
    }),
  });
  textarea.after(view.dom);
  textarea.hidden = true;
  return {
    text: () => view.state.doc.toString(),
    replace(text) {
      view.dispatch({ changes: { from: 0, to: view.state.doc.length, insert: text } });
    },
    useLanguage(name) {
      view.dispatch({ effects: language.reconfigure(name === "cpp" ? cpp() : python()) });
    },
    focus: () => view.focus(),
    /** Mark lines: `[{ line, title }]`, counted from 1; lines that are not there are left out. */
    mark(lines) {
      const known = lines.filter(({ line }) => line >= 1 && line <= view.state.doc.lines);
      const value = known.map(({ line, title }) =>
        Decoration.line({ class: "cm-failingLine", attributes: { title } }).range(view.state.doc.line(line).from),
      );
      view.dispatch({ effects: setMarks.of(value) });
    },
    /** Put the cursor at the start of a line and bring it into view. */
    go(line) {
      const { from } = view.state.doc.line(Math.min(Math.max(line, 1), view.state.doc.lines));
      view.dispatch({ selection: { anchor: from }, effects: EditorView.scrollIntoView(from, { y: "center" }) });
      view.focus();
    },
  };
}
