//! What stands around a live figure's picture on the page, written when the book is bound.
//!
//! The controls are there from the start, so that nothing moves when they begin to work; without a
//! script the style sheet hides them.

use crate::{Control, Kind, Live, View};
use anyhow::Result;
use figures::escape;

/// A live figure at rest: its picture with controls, sentence and table, as HTML on one line.
///
/// # Errors
/// If the chapter's code does not compute what the picture shows.
pub fn html(live: &Live) -> Result<String> {
    let controls = live.controls()?;
    let (state, view) = live.at_rest()?;
    let id = format!("fig-{}", live.id());
    let mut html = format!(
        "<div class=\"live-picture\">{}</div>",
        view.picture.to_inline_svg(&id)
    );
    html += &format!(
        "<form class=\"live-form\" autocomplete=\"off\" aria-label=\"Controls of this figure\">\
         <p class=\"live-hint\"><strong>Try it.</strong> {}</p>\
         <fieldset class=\"live-controls\" disabled>",
        escape(live.hint)
    );
    let states = state.shown().iter().zip(state.idle());
    for (control, (shown, &idle)) in controls.iter().zip(states) {
        html += &field(control, shown, idle, &id);
    }
    html += "<button type=\"reset\">Reset</button></fieldset></form>";
    html += &spoken(&view);
    Ok(html)
}

/// What the figure says, and its numbers.
fn spoken(view: &View) -> String {
    let mut html = format!(
        "<p class=\"live-said\">{}</p><div class=\"live-news\" role=\"status\"></div>\
         <details class=\"live-numbers\"><summary>The numbers as text</summary>\
         <div class=\"live-scroll\" tabindex=\"0\" role=\"region\" aria-label=\"The numbers of this figure\"><table>",
        escape(&view.said)
    );
    for (number, row) in view.table.iter().enumerate() {
        html += "<tr>";
        for (place, text) in row.iter().enumerate() {
            let text = escape(text);
            html += &match (number, place) {
                (0, _) => format!("<th scope=\"col\">{text}</th>"),
                (_, 0) => format!("<th scope=\"row\">{text}</th>"),
                _ => format!("<td>{text}</td>"),
            };
        }
        html += "</tr>";
    }
    html + "</table></div></details>"
}

/// One control with its label.
fn field(control: &Control, shown: &str, idle: bool, figure: &str) -> String {
    let Control {
        name,
        label,
        kind,
        default,
    } = control;
    let id = format!("{figure}-{name}");
    let (label, default) = (escape(label), escape(default));
    let data = if idle {
        "data-control disabled"
    } else {
        "data-control"
    };
    let labelled = |kind: &str, field: String| {
        format!(
            "<div class=\"live-control live-{kind}\"><label for=\"{id}\">{label}</label>{field}</div>"
        )
    };
    match kind {
        Kind::Slider {
            min,
            max,
            step,
            runs,
        } => {
            let run = if *runs {
                format!("<button type=\"button\" data-runs=\"{id}\">Run</button>")
            } else {
                String::new()
            };
            let shown = escape(shown);
            labelled(
                "slider",
                format!(
                    "<input type=\"range\" id=\"{id}\" {data} min=\"{min}\" max=\"{max}\" \
                     step=\"{step}\" value=\"{default}\" aria-valuetext=\"{shown}\">\
                     <output for=\"{id}\">{shown}</output>{run}"
                ),
            )
        }
        Kind::Number { min, max, step } => labelled(
            "number",
            format!(
                "<input type=\"number\" id=\"{id}\" {data} min=\"{min}\" max=\"{max}\" \
                 step=\"{step}\" value=\"{default}\" inputmode=\"decimal\">"
            ),
        ),
        Kind::Text { longest } => labelled(
            "text",
            format!(
                "<input type=\"text\" dir=\"auto\" id=\"{id}\" {data} maxlength=\"{longest}\" \
                 value=\"{default}\" spellcheck=\"false\" autocapitalize=\"off\">"
            ),
        ),
        Kind::Choice(choices) => {
            let options = choices.iter().map(|(value, name)| {
                let selected = if *value == control.default {
                    " selected"
                } else {
                    ""
                };
                format!(
                    "<option value=\"{value}\"{selected}>{}</option>",
                    escape(name)
                )
            });
            let options: String = options.collect();
            labelled(
                "choice",
                format!("<select id=\"{id}\" {data}>{options}</select>"),
            )
        }
        Kind::Check => {
            let checked = if default == "on" { " checked" } else { "" };
            format!(
                "<div class=\"live-control live-check\"><input type=\"checkbox\" id=\"{id}\" \
                 {data}{checked}><label for=\"{id}\">{label}</label></div>"
            )
        }
        Kind::Button => format!(
            "<button type=\"button\" id=\"{id}\" {data} data-count=\"{default}\">{label}</button>"
        ),
        Kind::Hidden => {
            format!("<input id=\"{id}\" {data} hidden value=\"{default}\">")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::all;

    #[test]
    fn every_figure_is_one_line_without_a_script() {
        for live in all() {
            let html = html(live).unwrap();
            assert!(!html.contains('\n'), "{}", live.id());
            assert!(!html.contains("<script") && !html.contains(" onclick"));
            let fields = html.matches(" data-control").count();
            assert_eq!(fields, live.controls().unwrap().len(), "{}", live.id());
        }
    }

    #[test]
    fn labels_are_text() {
        let kind = Kind::Text { longest: 9 };
        let control = Control::new("x", "a < b", kind, "\"<img onerror=x>\"");
        let html = field(&control, "", false, "f");
        assert!(html.contains("a &lt; b"), "{html}");
        assert!(html.contains("value=\"&quot;&lt;img onerror=x&gt;&quot;\""));
    }
}
