//! Controls, and what a reader has set them to.

use anyhow::{Context, Result, bail, ensure};

/// Something on the page that a reader changes.
#[derive(Clone, Debug, PartialEq)]
pub struct Control {
    /// How the figure calls it.
    pub name: &'static str,
    /// What stands before it on the page.
    pub label: String,
    /// What kind it is.
    pub kind: Kind,
    /// Its value before the reader changes it.
    pub default: String,
}

/// What kind of control it is, and which values it takes.
#[derive(Clone, Debug, PartialEq)]
pub enum Kind {
    /// A number between two others, on a slider.
    Slider {
        /// The smallest.
        min: f64,
        /// The largest.
        max: f64,
        /// The distance between neighbours.
        step: f64,
        /// Whether a button lets it run from the smallest to the largest.
        runs: bool,
    },
    /// A number to be typed.
    Number {
        /// The smallest.
        min: f64,
        /// The largest.
        max: f64,
        /// The distance of one press of an arrow key.
        step: f64,
    },
    /// A text of so many characters at most.
    Text {
        /// The most characters.
        longest: usize,
    },
    /// One of several: values, and how the page calls them.
    Choice(&'static [(&'static str, &'static str)]),
    /// `on` or nothing.
    Check,
    /// A number that a button counts up.
    Button,
    /// A text that only the figure itself sets.
    Hidden,
}

impl Control {
    pub(crate) fn new(
        name: &'static str,
        label: impl Into<String>,
        kind: Kind,
        default: impl ToString,
    ) -> Self {
        Self {
            name,
            label: label.into(),
            kind,
            default: default.to_string(),
        }
    }
}

/// The values of all controls of a figure.
#[derive(Clone, Debug, PartialEq)]
pub struct State {
    controls: Vec<Control>,
    values: Vec<String>,
    shown: Vec<String>,
    idle: Vec<bool>,
}

/// What no control's value may be longer than, in characters.
const LONGEST: usize = 400;

impl State {
    /// From one value for each control.
    ///
    /// # Errors
    /// If there are more or fewer values, or one is very long or holds a control character.
    pub fn new(controls: Vec<Control>, values: Vec<String>) -> Result<Self> {
        ensure!(
            controls.len() == values.len(),
            "there are {} controls but {} values",
            controls.len(),
            values.len()
        );
        for (control, value) in controls.iter().zip(&values) {
            let longest = match control.kind {
                Kind::Text { longest } => longest,
                _ => LONGEST,
            };
            let length = value.chars().count();
            ensure!(
                length <= longest,
                "{} is {length} characters long; at most {longest} can be shown",
                control.label
            );
            ensure!(
                !value.chars().any(char::is_control),
                "{} holds a character that cannot be shown",
                control.label
            );
        }
        let shown = vec![String::new(); values.len()];
        let idle = vec![false; values.len()];
        Ok(Self {
            controls,
            values,
            shown,
            idle,
        })
    }

    /// The values, in the order of the controls.
    pub fn values(&self) -> &[String] {
        &self.values
    }

    /// What stands beside each control: its value as the figure understands it.
    pub fn shown(&self) -> &[String] {
        &self.shown
    }

    /// Which controls change nothing while the others are as they are.
    pub fn idle(&self) -> &[bool] {
        &self.idle
    }

    /// The place of a control among the others.
    ///
    /// # Errors
    /// If there is none of that name.
    pub fn place(&self, name: &str) -> Result<usize> {
        let mut controls = self.controls.iter();
        controls
            .position(|control| control.name == name)
            .with_context(|| format!("there is no control {name}"))
    }

    pub(crate) fn text(&self, name: &str) -> Result<&str> {
        Ok(self.values[self.place(name)?].trim())
    }

    pub(crate) fn number(&self, name: &str) -> Result<f64> {
        let place = self.place(name)?;
        match self.values[place].trim().parse::<f64>() {
            Ok(x) => self.within(place, x),
            Err(_) => self.no_number(place),
        }
    }

    /// A whole number. It is read without the code that reads floats, which not every page has.
    pub(crate) fn whole(&self, name: &str) -> Result<usize> {
        let place = self.place(name)?;
        match self.values[place].trim().parse::<usize>() {
            Ok(x) => self.within(place, x as f64).map(|_| x),
            Err(_) => self.no_number(place),
        }
    }

    fn range(&self, place: usize) -> (f64, f64) {
        match self.controls[place].kind {
            Kind::Slider { min, max, .. } | Kind::Number { min, max, .. } => (min, max),
            _ => (0.0, 1e6),
        }
    }

    fn within(&self, place: usize, x: f64) -> Result<f64> {
        let (min, max) = self.range(place);
        if (min..=max).contains(&x) {
            Ok(x)
        } else {
            self.no_number(place)
        }
    }

    fn no_number<T>(&self, place: usize) -> Result<T> {
        let (min, max) = self.range(place);
        bail!(
            "{} takes a number from {min} to {max}, not “{}”",
            self.controls[place].label,
            self.values[place]
        )
    }

    pub(crate) fn is_on(&self, name: &str) -> Result<bool> {
        Ok(self.text(name)? == "on")
    }

    pub(crate) fn choice(&self, name: &str) -> Result<&'static str> {
        let place = self.place(name)?;
        let Kind::Choice(choices) = self.controls[place].kind else {
            bail!("{name} is no choice");
        };
        let value = &self.values[place];
        let mut choices = choices.iter().map(|(choice, _)| *choice);
        choices.find(|choice| choice == value).with_context(|| {
            let label = &self.controls[place].label;
            format!("{label} does not know “{value}”")
        })
    }

    pub(crate) fn set(&mut self, name: &str, value: impl ToString) -> Result<()> {
        let place = self.place(name)?;
        self.values[place] = value.to_string();
        Ok(())
    }

    /// Says whether a control changes nothing while the others are as they are.
    pub(crate) fn rest(&mut self, name: &str, idle: bool) -> Result<()> {
        let place = self.place(name)?;
        self.idle[place] = idle;
        Ok(())
    }

    pub(crate) fn show(&mut self, name: &str, shown: impl Into<String>) -> Result<()> {
        let place = self.place(name)?;
        self.shown[place] = shown.into();
        Ok(())
    }
}
