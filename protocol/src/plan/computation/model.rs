//! `task = "regression"`: a model that the parties fit together, from the rows of each. The table
//! `[model]` of a run file.

use std::fmt;

use serde::de::{self, Deserializer, Visitor};
use serde::{Deserialize, Serialize, Serializer};

use crate::model::descent::{DescentTerms, StepLength};
use crate::model::loss::Loss;
use crate::model::projection::{ModelSet, NoSet};
use crate::model::statistics;
use crate::plan::computation::method::{MethodChoice, RidgeChoice};
use crate::plan::run_file::limits::{MOST_COORDINATES, MOST_EQUATIONS, MOST_ITERATE_BYTES, MOST_ITERATIONS};
use crate::plan::run_file::problem::{Checked, Problem, count, refuse, require};
use crate::plan::run_file::settings::{Clip, Contributed, Data};

/// The loss by which a model is held against a row's target.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LossChoice {
    /// Least squares.
    Squared,
    /// Logistic regression: targets 0 and 1.
    Logistic,
    /// Softmax regression: targets 0 … classes − 1.
    Softmax,
}

/// The column of a row that is the target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TargetColumn {
    /// The last one.
    Last,
    /// The one of this name.
    Named(String),
    /// The one at this place, from 0.
    At(usize),
}

impl Serialize for TargetColumn {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            TargetColumn::Last => serializer.serialize_str("last"),
            TargetColumn::Named(name) => serializer.serialize_str(name),
            TargetColumn::At(column) => serializer.serialize_u64(*column as u64),
        }
    }
}

impl<'de> Deserialize<'de> for TargetColumn {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct TargetVisitor;
        impl Visitor<'_> for TargetVisitor {
            type Value = TargetColumn;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("\"last\", a column's name, or its number from 0")
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<TargetColumn, E> {
                Ok(match text {
                    "last" => TargetColumn::Last,
                    name => TargetColumn::Named(name.to_owned()),
                })
            }
            fn visit_i64<E: de::Error>(self, column: i64) -> Result<TargetColumn, E> {
                usize::try_from(column)
                    .map(TargetColumn::At)
                    .map_err(|_| E::invalid_value(de::Unexpected::Signed(column), &self))
            }
            fn visit_u64<E: de::Error>(self, column: u64) -> Result<TargetColumn, E> {
                usize::try_from(column)
                    .map(TargetColumn::At)
                    .map_err(|_| E::invalid_value(de::Unexpected::Unsigned(column), &self))
            }
        }
        deserializer.deserialize_any(TargetVisitor)
    }
}

/// The normalisation of the length of a row's features.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RowLength {
    /// Every row is scaled to length 1, with the intercept's 1.
    Unit,
    /// A longer row than 1 is scaled to length 1.
    Clip,
    /// Rows stay as they are.
    AsIs,
}

/// The length of an iteration's step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum StepChoice {
    /// 2/L_s for the loss's smoothness L_s with rows of length 1.
    Auto,
    /// Always as far.
    Constant(f64),
    /// `first`/k in iteration k, from 1.
    Inverse {
        /// The first iteration's step.
        first: f64,
    },
}

#[derive(Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
enum TaggedStep {
    Inverse { first: f64 },
}

#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum AnyStep {
    Named(String),
    Number(f64),
    Tagged(TaggedStep),
}

impl Serialize for StepChoice {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match *self {
            StepChoice::Auto => AnyStep::Named("auto".into()),
            StepChoice::Constant(step) => AnyStep::Number(step),
            StepChoice::Inverse { first } => AnyStep::Tagged(TaggedStep::Inverse { first }),
        }
        .serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for StepChoice {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let expected = "\"auto\", a number, or { kind = \"inverse\", first = 1.0 }";
        match AnyStep::deserialize(deserializer) {
            Ok(AnyStep::Named(name)) if name == "auto" => Ok(StepChoice::Auto),
            Ok(AnyStep::Number(step)) => Ok(StepChoice::Constant(step)),
            Ok(AnyStep::Tagged(TaggedStep::Inverse { first })) => Ok(StepChoice::Inverse { first }),
            _ => Err(de::Error::custom(format_args!("a step is {expected}"))),
        }
    }
}

/// The model that is fitted, and the method. All of it is public.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelSettings {
    /// Columns of a row, the target's included: at least 2.
    pub columns: usize,
    /// The names of the columns, if they have names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub names: Option<Vec<String>>,
    /// The bounds that feature columns are clipped to and brought to [−1, 1] by; without them they
    /// stay as they are. One of each, or as many as there are columns, the target's ignored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bounds: Option<Clip>,
    /// The loss by which the model is held against a target.
    pub loss: LossChoice,
    /// Softmax only: how many classes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub classes: Option<usize>,
    /// The column that is the target.
    pub target: TargetColumn,
    /// Least squares only: targets are clipped to these bounds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target_box: Option<[f64; 2]>,
    /// Whether each row gets one more feature, 1.
    pub intercept: bool,
    /// The normalisation of the length of a row's features.
    pub rows: RowLength,
    /// The method by which the model comes from the rows.
    #[serde(default, skip_serializing_if = "MethodChoice::is_default")]
    pub method: MethodChoice,
    /// C: the most that one row's gradient counts, in Euclidean length. With statistics R: the
    /// length that a row, its target included, is shortened to.
    pub clip: f64,
    /// K: how many sums are released.
    pub iterations: u64,
    /// The length of an iteration's step.
    pub step: StepChoice,
    /// β in [0, 1): the share of the last step's direction that stays.
    pub momentum: f64,
    /// λ: what the gradient grows by for each length of the model, or each feature's moment.
    pub ridge: RidgeChoice,
    /// The set within which the model is kept.
    pub set: ModelSet,
    /// The share of the iterates, from the end, whose mean is the model; 0: the last one.
    pub average: f64,
}

impl ModelSettings {
    /// The loss.
    pub fn loss(&self) -> Loss {
        match self.loss {
            LossChoice::Squared => Loss::Squared,
            LossChoice::Logistic => Loss::Logistic,
            LossChoice::Softmax => Loss::Softmax {
                classes: self.classes.unwrap_or(2),
            },
        }
    }

    /// Features of a row as the model sees it, the intercept's 1 included.
    pub fn features(&self) -> usize {
        self.columns.saturating_sub(1) + usize::from(self.intercept)
    }

    /// Coordinates of the model.
    pub fn parameters(&self) -> usize {
        self.loss().parameters(self.features())
    }

    /// The target's place in a row, from 0.
    pub fn target_at(&self) -> Option<usize> {
        match &self.target {
            TargetColumn::Last => self.columns.checked_sub(1),
            TargetColumn::At(column) => (*column < self.columns).then_some(*column),
            TargetColumn::Named(name) => self.names.as_ref()?.iter().position(|column| column == name),
        }
    }

    /// Returns the terms by which the model goes on from sums of gradients.
    ///
    /// # Errors
    /// The set is none for a model of this size.
    pub fn terms(&self) -> Result<DescentTerms, NoSet> {
        let step = match self.step {
            StepChoice::Auto => StepLength::Constant(2.0 / self.loss().smoothness(1.0)),
            StepChoice::Constant(step) => StepLength::Constant(step),
            StepChoice::Inverse { first } => StepLength::Inverse { first },
        };
        Ok(DescentTerms {
            step,
            momentum: self.momentum,
            ridge: self.ridge.constant().unwrap_or(0.0),
            set: self.set.projection(self.parameters())?,
            average: self.average,
        })
    }

    /// ρ: what is added to each feature's second moment, where noise of this standard deviation is
    /// in the mean of second moments.
    pub fn ridge_for(&self, noise_std: f64) -> f64 {
        self.ridge.constant().unwrap_or_else(|| {
            statistics::AUTO_RIDGE * statistics::noise_norm(self.features(), noise_std, 1.0)
        })
    }

    /// Whether the model is solved for from one sum of second moments.
    pub fn is_statistics(&self) -> bool {
        self.method == MethodChoice::Statistics
    }

    /// Returns the data of each party in a sum: a clipped gradient a row, or a row's second
    /// moments, over this plan's unit and adjacency.
    pub(in crate::plan) fn contributions(&self, data: Data) -> Data {
        let (coordinates, radius, contributed) = match self.method {
            MethodChoice::Statistics => (
                statistics::coordinates(self.features() + 1),
                self.clip * self.clip,
                Contributed::SecondMoments,
            ),
            MethodChoice::Descent => (self.parameters(), self.clip, Contributed::AsTheyAre),
        };
        Data {
            shape: vec![coordinates],
            clip: Clip::L2 { radius },
            columns: None,
            contributed,
            ..data
        }
    }

    /// Refuses what makes no training.
    ///
    /// # Errors
    /// The first key that is out of its range, by its name in a run file, and what is wrong.
    pub fn check(&self) -> Result<(), (String, Problem)> {
        count("data.shape", self.columns as u64, 2, MOST_COORDINATES as u64)?;
        match (self.loss, self.classes) {
            (LossChoice::Softmax, Some(classes)) => count("model.classes", classes as u64, 2, 1 << 16)?,
            (LossChoice::Softmax, None) => {
                return refuse(
                    "model.classes",
                    Problem::Missing {
                        example: "classes = 10",
                    },
                );
            }
            (_, None) => {}
            (_, Some(_)) => {
                return refuse(
                    "model.classes",
                    Problem::OnlyFor {
                        only: "loss = \"softmax\"",
                    },
                );
            }
        }
        self.check_method()?;
        let parameters = self.parameters();
        require(parameters <= MOST_COORDINATES, "model.classes", || {
            Problem::Shape {
                coordinates: parameters,
            }
        })?;
        require(self.target_at().is_some(), "model.target", || Problem::NoColumn {
            columns: self.columns,
        })?;
        if let ModelSet::Affine { a, .. } = &self.set {
            count("model.set", a.len() as u64, 1, MOST_EQUATIONS)?;
        }
        self.check_bounds()?;
        self.check_numbers()?;
        let (found, most) = (self.iterate_bytes(), MOST_ITERATE_BYTES);
        require(found <= most, "model.iterations", || Problem::Iterates {
            found,
            most,
        })?;
        self.set
            .projection(parameters)
            .map(|_| ())
            .map_err(|reason| ("model.set".to_owned(), Problem::Set(reason)))
    }

    /// Bytes of the iterates whose mean is the model.
    fn iterate_bytes(&self) -> u64 {
        let kept = (self.average * self.iterations as f64).ceil().max(1.0) as u64;
        let each = self.parameters() as u64 * size_of::<f64>() as u64;
        kept.saturating_mul(each)
    }

    /// Second moments are one sum, of least squares, and nothing of a descent's is theirs.
    fn check_method(&self) -> Checked {
        let auto = self.ridge == RidgeChoice::Auto;
        if !self.is_statistics() {
            return require(!auto, "model.ridge", || Problem::OnlyFor {
                only: "method = \"statistics\"",
            });
        }
        let squared = self.loss == LossChoice::Squared;
        require(squared, "model.method", || Problem::OnlyFor {
            only: "loss = \"squared\"",
        })?;
        count("model.iterations", self.iterations, 1, 1)?;
        // Twice as far from what f64 holds, since it is squared.
        require((1e-50..=1e50).contains(&self.clip), "model.clip", || {
            Problem::Range {
                found: self.clip,
                expected: "a finite number above 0, such as 2.0",
            }
        })?;
        require(self.set == ModelSet::None, "model.set", || Problem::OnlyFor {
            only: "method = \"descent\"",
        })
    }

    fn check_numbers(&self) -> Checked {
        let within = |field: &str, found: f64, fine: bool, expected: &'static str| {
            require(found.is_finite() && fine, field, || Problem::Range {
                found,
                expected,
            })
        };
        within(
            "model.clip",
            self.clip,
            (1e-100..=1e100).contains(&self.clip),
            "a finite number above 0, such as 0.5",
        )?;
        count("model.iterations", self.iterations, 1, MOST_ITERATIONS)?;
        match self.step {
            StepChoice::Auto => {
                let known = self.rows != RowLength::AsIs || self.is_statistics();
                require(known, "model.step", || Problem::StepOfAnyRows)?;
            }
            StepChoice::Constant(step) | StepChoice::Inverse { first: step } => {
                within(
                    "model.step",
                    step,
                    (1e-100..=1e100).contains(&step),
                    "a finite number above 0, such as 1.0",
                )?;
            }
        }
        within(
            "model.momentum",
            self.momentum,
            (0.0..1.0).contains(&self.momentum),
            "from 0 to below 1, such as 0.8",
        )?;
        let ridge = self.ridge.constant().unwrap_or(0.0);
        within(
            "model.ridge",
            ridge,
            (0.0..=1e100).contains(&ridge),
            "0 or above, such as 0.01",
        )?;
        within(
            "model.average",
            self.average,
            (0.0..=1.0).contains(&self.average),
            "from 0 to 1, such as 0.5",
        )
    }

    fn check_bounds(&self) -> Checked {
        if let Some([low, high]) = self.target_box {
            let squared = self.loss == LossChoice::Squared;
            require(squared, "model.target_box", || Problem::OnlyFor {
                only: "loss = \"squared\"",
            })?;
            let fine = low < high && low.abs() <= 1e100 && high.abs() <= 1e100;
            require(fine, "model.target_box", || Problem::BoxOrder {
                coordinate: 0,
                low,
                high,
            })?;
        }
        match &self.bounds {
            None => Ok(()),
            Some(Clip::L2 { .. } | Clip::Tensors { .. } | Clip::Described { .. }) => refuse(
                "data.clip",
                Problem::OnlyFor {
                    only: "another task than \"regression\": columns have bounds, clip = { kind = \"box\", … }",
                },
            ),
            Some(bounds @ Clip::Box { .. }) => bounds.check(self.columns),
        }
    }

    /// The bounds of a column, if there are any.
    pub fn bounds_of(&self, column: usize) -> Option<(f64, f64)> {
        match &self.bounds {
            Some(Clip::Box { low, high }) => Some((low.at(column), high.at(column))),
            _ => None,
        }
    }
}

/// The section `[model]`, with gaps.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[allow(missing_docs)] // the keys of run.toml, explained in `defaults::SETTINGS`
pub struct RawModel {
    pub loss: Option<LossChoice>,
    pub classes: Option<usize>,
    pub target: Option<TargetColumn>,
    pub target_box: Option<[f64; 2]>,
    pub intercept: Option<bool>,
    pub rows: Option<RowLength>,
    pub method: Option<MethodChoice>,
    pub clip: Option<f64>,
    pub iterations: Option<u64>,
    pub step: Option<StepChoice>,
    pub momentum: Option<f64>,
    pub ridge: Option<RidgeChoice>,
    pub set: Option<ModelSet>,
    pub average: Option<f64>,
}

/// The rows of a training: what a run file's `[data]` says of them.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::plan) struct RowsOf {
    pub(in crate::plan) shape: Vec<usize>,
    pub(in crate::plan) names: Option<Vec<String>>,
    pub(in crate::plan) bounds: Option<Clip>,
}

/// No length is right for whatever targets there are.
const CLIP_OF_SQUARED: &str = "clip = 1.0, the most that one row's gradient counts, from what is known of \
                               targets and features, never from the data";
const CLIP_OF_MOMENTS: &str = "clip = 2.0, the length that a row is shortened to, its target included; or \
                               target_box = [low, high] with rows of length 1";

impl RowsOf {
    /// Returns the number of columns of a row.
    pub(super) fn columns(&self) -> Checked<usize> {
        let [columns] = self.shape[..] else {
            let extents = self.shape.iter();
            let coordinates = extents.fold(1usize, |product, extent| product.saturating_mul(*extent));
            return Err((
                "data.shape".into(),
                Problem::NoRow {
                    axes: self.shape.len(),
                    coordinates,
                },
            ));
        };
        Ok(columns)
    }
}

impl RawModel {
    /// Says what follows from the method where the run file does not: called before gaps are filled
    /// from the `table` of defaults, which may stand in any file.
    pub(in crate::plan) fn settle_method(&mut self, table: &RawModel) -> Checked {
        if self.method != Some(MethodChoice::Statistics) {
            return Ok(());
        }
        let squared = self.loss.is_none_or(|loss| loss == LossChoice::Squared);
        require(squared, "model.method", || Problem::OnlyFor {
            only: "loss = \"squared\"",
        })?;
        let descent = |unsaid: bool, key: &str| {
            require(unsaid, &format!("model.{key}"), || Problem::OnlyFor {
                only: "method = \"descent\"",
            })
        };
        let fine = |said: bool, same: bool| !said || same;
        let same = self.iterations == table.iterations || self.iterations == Some(1);
        descent(fine(self.iterations.is_some(), same), "iterations")?;
        descent(fine(self.step.is_some(), self.step == table.step), "step")?;
        descent(
            fine(self.momentum.is_some(), self.momentum == table.momentum),
            "momentum",
        )?;
        descent(fine(self.set.is_some(), self.set == table.set), "set")?;
        descent(
            fine(self.average.is_some(), self.average == table.average),
            "average",
        )?;
        self.iterations = Some(1);
        let scaled = self.rows != Some(RowLength::AsIs);
        if let Some([low, high]) = self.target_box.filter(|_| scaled) {
            self.clip = self.clip.or(Some(statistics::radius_of(low, high)));
        }
        Ok(())
    }

    /// Completes the settings. Keys with a default have been filled already; the others are derived
    /// here. `clipped`: whether the run file itself says `model.clip`.
    pub(in crate::plan) fn complete(self, rows: RowsOf, clipped: bool) -> Checked<ModelSettings> {
        fn given<T>(value: Option<T>, key: &str, example: &'static str) -> Checked<T> {
            value.ok_or_else(|| (format!("model.{key}"), Problem::Missing { example }))
        }
        let loss = given(self.loss, "loss", "loss = \"softmax\" under [model]")?;
        if loss == LossChoice::Squared && !clipped {
            let example = match self.method {
                Some(MethodChoice::Statistics) => CLIP_OF_MOMENTS,
                _ => CLIP_OF_SQUARED,
            };
            return Err(("model.clip".into(), Problem::Missing { example }));
        }
        let columns = rows.columns()?;
        Ok(ModelSettings {
            columns,
            names: rows.names,
            bounds: rows.bounds,
            loss,
            classes: self.classes,
            target: given(self.target, "target", "target = \"last\"")?,
            target_box: self.target_box,
            intercept: given(self.intercept, "intercept", "intercept = true")?,
            rows: given(self.rows, "rows", "rows = \"unit\"")?,
            method: given(self.method, "method", "method = \"descent\"")?,
            clip: given(self.clip, "clip", "clip = 0.5")?,
            iterations: given(self.iterations, "iterations", "iterations = 50")?,
            step: given(self.step, "step", "step = \"auto\"")?,
            momentum: given(self.momentum, "momentum", "momentum = 0.8")?,
            ridge: given(self.ridge, "ridge", "ridge = 0.0")?,
            set: given(self.set, "set", "set = { kind = \"none\" }")?,
            average: given(self.average, "average", "average = 0.5")?,
        })
    }
}
