#include "app/cli/check/check_report.h"

#include <fmt/core.h>

#include <algorithm>
#include <string_view>

#include "core/files/text/text_escape.h"

namespace moescope {
namespace {

using Replacements = std::initializer_list<std::pair<char, const char*>>;

std::string replaced(std::string_view text, Replacements replacements) {
  std::string result;
  for (const char c : text) {
    const auto found = std::ranges::find(replacements, c, &std::pair<char, const char*>::first);
    if (found == replacements.end())
      result += c;
    else
      result += found->second;
  }
  return result;
}

// printable_lines() leaves no character that XML 1.0 refuses.
std::string xml(std::string_view text) {
  return replaced(printable_lines(text), {{'&', "&amp;"}, {'<', "&lt;"}, {'>', "&gt;"}, {'"', "&quot;"}});
}

std::string case_xml(const CheckCase& found) {
  const std::string text = xml(found.text);
  std::string inside;
  if (found.outcome == CheckOutcome::failed) inside = fmt::format("<failure message=\"{}\">{}</failure>", text, text);
  if (found.outcome == CheckOutcome::noted) inside = fmt::format("<system-out>{}</system-out>", text);
  if (found.outcome == CheckOutcome::not_checked) inside = fmt::format("<skipped message=\"{}\"/>", text);
  return fmt::format("    <testcase classname=\"{}\" name=\"{}\">{}</testcase>\n", xml(found.run), xml(found.name),
                     inside);
}

std::size_t count(std::span<const CheckCase> cases, CheckOutcome outcome) {
  return std::ranges::count(cases, outcome, &CheckCase::outcome);
}

std::string counts_xml(std::span<const CheckCase> cases) {
  return fmt::format("tests=\"{}\" failures=\"{}\" skipped=\"{}\"", cases.size(), count(cases, CheckOutcome::failed),
                     count(cases, CheckOutcome::not_checked));
}

}  // namespace

std::string junit_xml(std::span<const CheckCase> cases) {
  std::string text = fmt::format(
      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites name=\"moescope-cli check\" {}>\n", counts_xml(cases));
  for (std::size_t begin = 0; begin < cases.size();) {
    std::size_t end = begin;
    while (end < cases.size() && cases[end].run == cases[begin].run) ++end;
    const auto suite = cases.subspan(begin, end - begin);
    text += fmt::format("  <testsuite name=\"{}\" {}>\n", xml(suite.front().run), counts_xml(suite));
    for (const CheckCase& found : suite) text += case_xml(found);
    text += "  </testsuite>\n";
    begin = end;
  }
  return text + "</testsuites>\n";
}

std::string github_annotations(std::span<const CheckCase> cases) {
  static const Replacements kData = {{'%', "%25"}, {'\r', "%0D"}, {'\n', "%0A"}};
  static const Replacements kProperty = {{'%', "%25"}, {'\r', "%0D"}, {'\n', "%0A"}, {':', "%3A"}, {',', "%2C"}};
  std::string text;
  for (const CheckCase& found : cases) {
    if (found.outcome != CheckOutcome::failed && found.outcome != CheckOutcome::noted) continue;
    text += fmt::format("::{} title={}::{}\n", found.outcome == CheckOutcome::failed ? "error" : "warning",
                        replaced(printable(found.run + ": " + found.name), kProperty),
                        replaced(printable_lines(found.text), kData));
  }
  return text;
}

}  // namespace moescope
