//! Scripts that only call `cl.throttle`, recognised by a strict parser.
//!
//! The whole script must be `return redis.call('cl.throttle', ...)`, or the same through one local
//! variable. Its arguments are `KEYS[n]`, `ARGV[n]`, literals, and `unpack(KEYS)` or `unpack(ARGV)`.

/// The maximum number of arguments of the call, more than `cl.throttle` takes.
const MAX_ARGUMENTS: usize = 16;

/// A script that only calls `cl.throttle`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::doors::resp) struct ThrottleScript {
    /// The arguments after the name of the command.
    pub(in crate::doors::resp) arguments: Vec<ScriptArgument>,
}

/// An argument of the call in a script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::doors::resp) enum ScriptArgument {
    /// `KEYS[n]`; the first is 1.
    Key(usize),
    /// `ARGV[n]`; the first is 1.
    Argument(usize),
    /// A text or a whole number.
    Literal(Vec<u8>),
    /// `unpack(KEYS)`.
    AllKeys,
    /// `unpack(ARGV)`.
    AllArguments,
}

impl ThrottleScript {
    /// Parses a script; returns `None` if it is or might be anything else.
    pub(in crate::doors::resp) fn parse(text: &[u8]) -> Option<ThrottleScript> {
        let text = std::str::from_utf8(text).ok()?;
        // The first line may name the language, with flags that do not matter here.
        let text = match text.strip_prefix("#!lua") {
            Some(rest) => rest.split_once('\n').map_or("", |(_, script)| script),
            None => text,
        };
        let mut parser = ScriptParser { rest: text };
        let variable = match parser.word("local") {
            true => {
                let name = parser.name()?;
                parser.symbol("=")?;
                Some(name)
            }
            false => {
                parser.word("return").then_some(())?;
                None
            }
        };
        let script = ThrottleScript { arguments: parser.call()? };
        while parser.symbol(";").is_some() {}
        if let Some(variable) = variable {
            (parser.word("return") && parser.name()? == variable).then_some(())?;
            while parser.symbol(";").is_some() {}
        }
        parser.skip_space();
        parser.rest.is_empty().then_some(script)
    }
}

/// The part of a script that is still to be parsed.
struct ScriptParser<'s> {
    rest: &'s str,
}

impl<'s> ScriptParser<'s> {
    /// Skips white space and comments of one line. A block comment stays, and fails to parse.
    fn skip_space(&mut self) {
        loop {
            self.rest = self.rest.trim_ascii_start();
            match self.rest.strip_prefix("--") {
                Some(comment) if !comment.starts_with('[') => {
                    self.rest = comment.split_once('\n').map_or("", |(_, rest)| rest);
                }
                _ => return,
            }
        }
    }

    fn symbol(&mut self, symbol: &str) -> Option<()> {
        self.skip_space();
        self.rest = self.rest.strip_prefix(symbol)?;
        Some(())
    }

    /// Reads an identifier.
    fn name(&mut self) -> Option<&'s str> {
        self.skip_space();
        let is_part = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
        let length = self.rest.bytes().take_while(|byte| is_part(*byte)).count();
        let (name, rest) = self.rest.split_at(length);
        let begins = name.bytes().next().is_some_and(|byte| !byte.is_ascii_digit());
        self.rest = if begins { rest } else { self.rest };
        begins.then_some(name)
    }

    /// Reads this identifier, if it is the next one.
    fn word(&mut self, word: &str) -> bool {
        let before = self.rest;
        let found = self.name() == Some(word);
        if !found {
            self.rest = before;
        }
        found
    }

    /// Reads `redis.call('cl.throttle', ...)`; returns the arguments.
    fn call(&mut self) -> Option<Vec<ScriptArgument>> {
        self.word("redis").then_some(())?;
        self.symbol(".")?;
        (self.word("call") || self.word("pcall")).then_some(())?;
        self.symbol("(")?;
        let ScriptArgument::Literal(name) = self.argument()? else { return None };
        name.eq_ignore_ascii_case(b"cl.throttle").then_some(())?;
        let mut arguments = Vec::new();
        while self.symbol(",").is_some() {
            // All values of `unpack` are passed only if it is the last argument.
            let is_open = |last: &ScriptArgument| {
                !matches!(last, ScriptArgument::AllKeys | ScriptArgument::AllArguments)
            };
            arguments.last().is_none_or(is_open).then_some(())?;
            arguments.push(self.argument()?);
            (arguments.len() <= MAX_ARGUMENTS).then_some(())?;
        }
        self.symbol(")")?;
        Some(arguments)
    }

    fn argument(&mut self) -> Option<ScriptArgument> {
        self.skip_space();
        match self.rest.bytes().next()? {
            quote @ (b'\'' | b'"') => {
                let (text, rest) = self.rest[1..].split_once(char::from(quote))?;
                // An escape or a line break would need all of Lua's rules.
                (!text.contains(['\\', '\n'])).then_some(())?;
                self.rest = rest;
                Some(ScriptArgument::Literal(text.into()))
            }
            b'-' | b'0'..=b'9' => self.whole_number(),
            _ => match self.name()? {
                "KEYS" => self.index().map(ScriptArgument::Key),
                "ARGV" => self.index().map(ScriptArgument::Argument),
                "unpack" => {
                    self.symbol("(")?;
                    let all = match self.name()? {
                        "KEYS" => ScriptArgument::AllKeys,
                        "ARGV" => ScriptArgument::AllArguments,
                        _ => return None,
                    };
                    self.symbol(")")?;
                    Some(all)
                }
                _ => None,
            },
        }
    }

    fn whole_number(&mut self) -> Option<ScriptArgument> {
        let digits = self.rest.strip_prefix('-').unwrap_or(self.rest);
        let length = digits.bytes().take_while(u8::is_ascii_digit).count();
        let (number, rest) = self.rest.split_at(self.rest.len() - digits.len() + length);
        // Numbers of more digits would be rounded by Lua.
        let is_whole = (1..=15).contains(&length)
            && !rest.starts_with(|next: char| next.is_ascii_alphanumeric() || "._".contains(next));
        let value: i64 = is_whole.then(|| number.parse().ok()).flatten()?;
        self.rest = rest;
        Some(ScriptArgument::Literal(value.to_string().into()))
    }

    fn index(&mut self) -> Option<usize> {
        self.symbol("[")?;
        self.skip_space();
        let ScriptArgument::Literal(number) = self.whole_number()? else { return None };
        self.symbol("]")?;
        std::str::from_utf8(&number).ok()?.parse().ok().filter(|index| *index > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scripts_that_only_throttle_are_recognised() {
        use ScriptArgument::{AllArguments, AllKeys, Argument, Key, Literal};
        let number = |text: &str| Literal(text.into());
        for (text, expected) in [
            (
                "return redis.call('CL.THROTTLE', KEYS[1], ARGV[1], ARGV[2], ARGV[3], ARGV[4])",
                vec![Key(1), Argument(1), Argument(2), Argument(3), Argument(4)],
            ),
            (
                "-- a limit\n  return redis.pcall( \"cl.throttle\" , KEYS[ 1 ],15,30 , 60);\n",
                vec![Key(1), number("15"), number("30"), number("60")],
            ),
            (
                "#!lua\nlocal r = redis.call('cl.throttle', 'user:1', '1', 1, 60, -1);\nreturn r",
                vec![number("user:1"), number("1"), number("1"), number("60"), number("-1")],
            ),
            ("return redis.call('cl.throttle',KEYS[1],unpack(ARGV))", vec![Key(1), AllArguments]),
            ("return redis.call('cl.throttle', unpack(KEYS))", vec![AllKeys]),
        ] {
            let parsed = ThrottleScript::parse(text.as_bytes()).map(|script| script.arguments);
            assert_eq!(parsed, Some(expected), "{text}");
        }
    }

    #[test]
    fn other_scripts_are_not_recognised() {
        for text in [
            "",
            "return 1",
            "return redis.call('get', KEYS[1])",
            "return redis.call('cl.throttle', KEYS[1]) + 1",
            "return redis.call('cl.throttle', KEYS[1]) redis.call('del', KEYS[1])",
            "redis.call('del', KEYS[1]) return redis.call('cl.throttle', KEYS[1])",
            "return redis.call('cl.throttle', KEYS[0])",
            "return redis.call('cl.throttle', KEYS[1.5])",
            "return redis.call('cl.throttle', KEYS[1] .. 'x')",
            "return redis.call('cl.throttle', unpack(ARGV), 1)",
            "return redis.call('cl.throttle', 'a\\'b')",
            "return redis.call('cl.throttle', 0x10)",
            "return redis.call('cl.throttle', 1e3)",
            "return --[[x]] redis.call('cl.throttle', KEYS[1])",
            "local a = redis.call('cl.throttle', KEYS[1]) return b",
            "local a = redis.call('cl.throttle', KEYS[1])",
            "return redis.call('cl.throttle', KEYS[1]",
            "return redis.call(KEYS[1])",
            "returnredis.call('cl.throttle', KEYS[1])",
            "return redis.call('cl.throttle', 'é",
            "return redis.call('cl.throttle', -)",
        ] {
            assert_eq!(ThrottleScript::parse(text.as_bytes()), None, "{text}");
        }
    }
}
