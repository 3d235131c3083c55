// The limit on nesting in JSON and TOML of unknown origin: files, recordings, the network. Parsers recurse, and so does
// whatever copies, prints or frees what they build, so a small file of 100,000 brackets would overflow the stack.
// Nothing that the program reads is nested deeper than ten.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace moescope {

inline constexpr int kMaxNesting = 64;

// The first byte at which a text is nested deeper than that; npos: nowhere. Brackets in strings do not count, nor in
// TOML those in comments. In a text that is not valid JSON or TOML, everything before its first error is counted as the
// parsers count it.
std::size_t json_too_deep_at(std::string_view text);
// Each part of a [header] and of a dotted key is a level, as a bracket is: a.b = {c.d = []} is four deep.
std::size_t toml_too_deep_at(std::string_view text);

std::string too_deep_text();  // "nested more than 64 deep"

}  // namespace moescope
