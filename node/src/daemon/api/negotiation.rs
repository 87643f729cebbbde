//! The format of an answered mean: the `Accept` header, by RFC 9110's qualities.

use hyper::StatusCode;
use hyper::header::{self, HeaderMap};

use crate::daemon::api::problem::Problem;
use crate::vector_file::formats::{self, NPY};
use crate::vector_file::layout::{Dtype, Format, Layout};

/// In what a mean can be had: `.npy` in the input's dtype and JSON as nested lists always; `.csv`
/// and `.safetensors` if the input was one. The first is the default.
pub(super) fn offered(layout: &Layout) -> Vec<Layout> {
    let shape = layout.vector_shape();
    let npy = match layout.format {
        Format::Npy(_) => layout.clone(),
        _ => Layout::npy(shape.clone(), Dtype::F64),
    };
    let json = Layout {
        shape,
        format: Format::Json,
    };
    let as_contributed = matches!(layout.format, Format::Csv { .. } | Format::Safetensors { .. });
    let as_contributed = as_contributed.then(|| layout.clone());
    [npy, json].into_iter().chain(as_contributed).collect()
}

/// In what statistics of a table can be had: JSON, the default, and `.csv`.
pub(super) fn of_figures() -> Vec<Layout> {
    let of = |format| Layout {
        shape: vec![],
        format,
    };
    vec![of(Format::Json), of(Format::Csv { header: None })]
}

/// The media type of a file with this layout.
pub(super) fn type_of(layout: &Layout) -> &'static str {
    formats::media_type(layout.format.extension()).unwrap_or(BYTES)
}

/// The format that the client likes most, of those in which a mean is offered; 406 if it takes
/// none.
pub(super) fn choose(headers: &HeaderMap, offered: Vec<Layout>) -> Result<Layout, Problem> {
    let accept: Vec<&str> = headers
        .get_all(header::ACCEPT)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .collect();
    let accept = if accept.is_empty() { vec!["*/*"] } else { accept };
    let ranges: Vec<(&str, f64)> = accept
        .iter()
        .flat_map(|line| line.split(','))
        .map(range)
        .collect();
    let known = offered.iter().map(type_of).collect::<Vec<_>>().join(", ");
    // Of equals the first: the last maximum of the reversed order.
    let best = offered
        .into_iter()
        .rev()
        .map(|layout| (quality(&ranges, type_of(&layout)), layout));
    let best = best
        .filter(|(quality, _)| *quality > 0.0)
        .max_by(|(a, _), (b, _)| a.total_cmp(b));
    best.map(|(_, layout)| layout).ok_or_else(|| {
        Problem::new(
            StatusCode::NOT_ACCEPTABLE,
            "not-acceptable",
            "the mean is not to be had in a format that you accept",
        )
        .field("Accept")
        .hint(format!("accept one of {known}"))
    })
}

fn range(text: &str) -> (&str, f64) {
    let mut parts = text.split(';').map(str::trim);
    let range = parts.next().unwrap_or_default();
    let quality = parts.find_map(|part| part.strip_prefix("q=").or(part.strip_prefix("Q=")));
    (range, quality.map_or(1.0, |q| q.parse().unwrap_or(0.0)))
}

/// That of the most specific range which the type lies in; 0 if there is none.
fn quality(ranges: &[(&str, f64)], media_type: &str) -> f64 {
    let family = media_type.split('/').next().unwrap_or_default();
    let of = |wanted: &dyn Fn(&str) -> bool| {
        ranges
            .iter()
            .find(|(range, _)| wanted(range))
            .map(|&(_, quality)| quality)
    };
    let is = |range: &str| range.eq_ignore_ascii_case(media_type) || (range == BYTES && media_type == NPY);
    let in_family = |range: &str| {
        range
            .strip_suffix("/*")
            .is_some_and(|f| f.eq_ignore_ascii_case(family))
    };
    of(&is)
        .or_else(|| of(&in_family))
        .or_else(|| of(&|range| range == "*/*"))
        .unwrap_or(0.0)
}

/// The media type that many programs give to a file that they know nothing of; a `.npy` has no
/// registered type.
const BYTES: &str = "application/octet-stream";

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(layout: &Layout, accept: &[&str]) -> Result<&'static str, u16> {
        let headers = accept
            .iter()
            .map(|line| (header::ACCEPT, line.parse().unwrap()))
            .collect();
        choose(&headers, offered(layout))
            .map(|layout| type_of(&layout))
            .map_err(|problem| problem.status)
    }

    #[test]
    fn the_client_gets_what_it_likes_most() {
        let vector = Layout::npy(vec![3], Dtype::F32);
        let (npy, json) = (Ok("application/x-npy"), Ok("application/json"));
        assert_eq!(chosen(&vector, &[]), npy);
        assert_eq!(chosen(&vector, &["*/*"]), npy);
        assert_eq!(chosen(&vector, &["application/octet-stream"]), npy);
        assert_eq!(chosen(&vector, &["application/json"]), json);
        assert_eq!(
            chosen(&vector, &["text/html, application/json;q=0.9, */*;q=0.1"]),
            json
        );
        assert_eq!(
            chosen(&vector, &["application/json; q=0.5", "application/x-npy"]),
            npy
        );
        assert_eq!(chosen(&vector, &["application/x-npy;q=0, */*"]), json);
        for refused in [
            "text/csv",
            "text/*",
            "application/json;q=0",
            "application/json;q=high",
            "",
        ] {
            assert_eq!(chosen(&vector, &[refused]), Err(406), "{refused}");
        }
    }

    #[test]
    fn a_table_comes_back_as_a_table_and_a_model_as_a_model() {
        let table = Layout {
            shape: vec![1, 3],
            format: Format::Csv { header: None },
        };
        assert_eq!(chosen(&table, &["text/csv"]), Ok("text/csv"));
        assert_eq!(
            choose(&HeaderMap::new(), offered(&table)).unwrap(),
            Layout::npy(vec![3], Dtype::F64)
        );
        let model = Layout {
            shape: vec![3],
            format: Format::Safetensors {
                tensors: vec![],
                metadata: Default::default(),
                carried: vec![],
            },
        };
        assert_eq!(
            chosen(&model, &["application/x-safetensors"]),
            Ok("application/x-safetensors")
        );
        assert_eq!(chosen(&model, &["text/csv"]), Err(406));
    }
}
