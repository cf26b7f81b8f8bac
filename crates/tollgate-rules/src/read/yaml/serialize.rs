//! Serializes YAML trees: a node becomes the value that YAML's core schema gives it.

use serde::ser::{Serialize, SerializeMap, Serializer};

use super::{YamlNode, YamlValue};

/// Scalars in quotes are texts; plain ones are null, booleans or numbers where they read as such.
///
/// ```
/// use tollgate_rules::{Source, yaml::YamlFile};
/// let source = Source::new("a.yaml", "a: [1, '1', true, x, ~, 1.5]");
/// let file = YamlFile::read(&source)?;
/// let json = serde_json::to_string(&file.documents()[0]).unwrap();
/// assert_eq!(json, r#"{"a":[1,"1",true,"x",null,1.5]}"#);
/// # Ok::<(), tollgate_rules::Diagnostics>(())
/// ```
impl Serialize for YamlNode<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match &self.value {
            YamlValue::Scalar { text, plain: false } => serializer.serialize_str(text),
            YamlValue::Scalar { .. } if self.is_null() => serializer.serialize_unit(),
            YamlValue::Scalar { text, .. } => plain_scalar(text, serializer),
            YamlValue::List(items) => serializer.collect_seq(items.iter()),
            YamlValue::Map(pairs) => {
                let mut map = serializer.serialize_map(Some(pairs.len()))?;
                for (key, value) in pairs.iter() {
                    map.serialize_entry(key.text().unwrap_or("null"), value)?;
                }
                map.end()
            }
        }
    }
}

fn plain_scalar<S: Serializer>(text: &str, serializer: S) -> Result<S::Ok, S::Error> {
    let is_number = text.starts_with(|c: char| c.is_ascii_digit() || "+-.".contains(c))
        && text.contains(|c: char| c.is_ascii_digit());
    match text {
        "true" | "True" | "TRUE" => serializer.serialize_bool(true),
        "false" | "False" | "FALSE" => serializer.serialize_bool(false),
        _ if is_number => {
            if let Ok(number) = text.parse::<i64>() {
                serializer.serialize_i64(number)
            } else if let Ok(number) = text.parse::<f64>() {
                serializer.serialize_f64(number)
            } else {
                serializer.serialize_str(text)
            }
        }
        _ => serializer.serialize_str(text),
    }
}
