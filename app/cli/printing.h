// Printing of commands.
#pragma once

#include <fmt/core.h>

#include <cstdio>
#include <utility>

#include "core/files/text/report.h"

namespace moescope {

// As fmt::print, but does not throw if the stream cannot be written, which main() reports at the end.
template <class... Values>
void print_to(std::FILE* out, fmt::format_string<Values...> format, Values&&... values) {
  std::fputs(fmt::format(format, std::forward<Values>(values)...).c_str(), out);
}
template <class... Values>
void print_out(fmt::format_string<Values...> format, Values&&... values) {
  print_to(stdout, format, std::forward<Values>(values)...);
}
inline void print_report(const Report& report, bool as_json = false) {
  print_out("{}", as_json ? report.json_text() : report.text());
}

}  // namespace moescope
