// Bytes as printable ASCII: "\n", "\t", "\r", "\\" and "\xHH" for all that is not printable. What a person types for
// telemetry.probe, and how texts stand in JSON lines.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace moescope {

std::string escape_bytes(std::string_view bytes);
// Inverse; other characters (UTF-8, too) stand for their own bytes. Nothing: a backslash that starts none of these.
std::optional<std::string> unescape_bytes(std::string_view text);

}  // namespace moescope
