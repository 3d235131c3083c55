// One limit for how deep values stand within values in text that somebody else wrote: JSON and TOML, in files, in
// recordings and over the network. Parsers, and whatever copies, prints or frees what they build, go down by recursion,
// so that a small file of 100,000 brackets would use up the stack. Nothing that the program reads is deeper than ten.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace moescope {

inline constexpr int kMostNesting = 64;

// The first byte at which a text goes deeper than that; npos: nowhere. What stands in strings does not count, nor in
// TOML what stands in comments. Of a text that is no JSON, or no TOML, everything before its first mistake is counted
// as the parsers count it.
std::size_t json_too_deep_at(std::string_view text);
// A part of a [header] and of a dotted key is a level, as a bracket is: a.b = {c.d = []} is four deep.
std::size_t toml_too_deep_at(std::string_view text);

std::string too_deep_text();  // "nested more than 64 deep"

}  // namespace moescope
