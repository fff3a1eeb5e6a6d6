//! Diagnostics as text: rustc's look for terminals, one line each for logs.

use annotate_snippets::{AnnotationKind, Group, Level, Renderer, Snippet, normalize_untrusted_str};

use super::{Diagnostic, Diagnostics, Palette, Severity, Spot};

/// Wide enough for any line that [`super::Line`] keeps: the caret must never be cut off.
const WIDTH: usize = 400;

pub(super) fn full(diagnostics: &Diagnostics, palette: Palette) -> String {
    let renderer = match palette {
        Palette::Plain => Renderer::plain(),
        Palette::Colour => Renderer::styled(),
    }
    .term_width(WIDTH);
    let each = diagnostics.iter().map(|diagnostic| renderer.render(&[group(diagnostic)]).to_string());
    let hidden = (diagnostics.hidden() > 0).then(|| hidden_line(diagnostics));
    each.chain(hidden).collect::<Vec<_>>().join("\n\n")
}

pub(super) fn lines(diagnostics: &Diagnostics) -> Vec<String> {
    let hidden = (diagnostics.hidden() > 0).then(|| hidden_line(diagnostics));
    diagnostics.iter().map(line).chain(hidden).collect()
}

pub(super) fn line(diagnostic: &Diagnostic) -> String {
    let mut text = format!("{}: {}", head(diagnostic), diagnostic.message);
    for label in &diagnostic.labels {
        text.push_str(&format!(" ({}: {})", label.spot, label.text));
    }
    if let Some(remedy) = &diagnostic.remedy {
        text.push_str("; help: ");
        text.push_str(remedy);
    }
    // Paths and quoted values come from files: no line breaks, no escape sequences.
    normalize_untrusted_str(&text.replace(['\n', '\r'], " "))
}

/// `lvsd.toml:3:11: error`
fn head(diagnostic: &Diagnostic) -> String {
    format!("{}: {}", diagnostic.spot, diagnostic.severity.name())
}

fn hidden_line(diagnostics: &Diagnostics) -> String {
    let counted = |n: usize, what: &str| format!("{n} {what}{}", if n == 1 { "" } else { "s" });
    format!(
        "and {} more; {} and {} in all",
        diagnostics.hidden(),
        counted(diagnostics.errors, "error"),
        counted(diagnostics.warnings, "warning")
    )
}

fn group(diagnostic: &Diagnostic) -> Group<'_> {
    let level = match diagnostic.severity {
        Severity::Error => Level::ERROR,
        Severity::Warning => Level::WARNING,
    };
    // The place stands in the first line, so the snippet of that place needs no path of its own.
    let title = level.with_name(head(diagnostic)).primary_title(diagnostic.message.as_str());
    let mut group = Group::with_title(title);
    if let Some(snippet) = snippet(&diagnostic.spot, AnnotationKind::Primary, None) {
        group = group.element(snippet);
    }
    for label in &diagnostic.labels {
        if let Some(snippet) = snippet(&label.spot, AnnotationKind::Context, Some(&label.text)) {
            group = group.element(snippet.path(label.spot.path.as_str()));
        }
    }
    match &diagnostic.remedy {
        Some(remedy) => group.element(Level::HELP.message(normalize_untrusted_str(remedy))),
        None => group,
    }
}

fn snippet<'a>(
    spot: &'a Spot,
    kind: AnnotationKind,
    label: Option<&'a str>,
) -> Option<Snippet<'a, annotate_snippets::Annotation<'a>>> {
    let line = spot.line.as_ref()?;
    let annotation = kind.span(line.highlight.clone()).label(label.map(normalize_untrusted_str));
    Some(Snippet::source(line.text.as_str()).line_start(line.number).annotation(annotation))
}
