// libFuzzer over run configs and lessons: any text gives settings or problems; settings without a problem are written
// and read back as the same settings, as a set-up link, too; any text is a link or is refused in a sentence. How to
// run: tests/CMakeLists.txt.
#include <stdexcept>

#include "core/config/run_config.h"
#include "core/config/setup_link.h"
#include "core/lessons/lesson.h"
#include "tests/fuzz/fuzz_input.h"

using namespace moescope;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const ParsedConfig parsed = parse_config(text, "fuzzed.toml");
  for (const ConfigProblem& problem : parsed.problems) require(!problem.text().empty(), "a problem has words");
  if (parsed.problems.empty()) {
    require(validate(parsed.config).empty(), "what was accepted is valid");
    const ParsedConfig again = parse_config(to_toml(parsed.config), "again.toml");
    require(again.problems.empty(), "what was accepted can be written and read again");
    require(difference(parsed.config, again.config).empty(), "and is the same");
    SharedSetup setup;
    setup.configs = {parsed.config};
    if (size < 10000)  // a link is short
      require(difference(read_setup_link(setup_link(setup)).configs.front(), parsed.config).empty(), "a link holds it");
    require(all_runs(parsed).size() == parsed.twins.size() + 1, "twins are runs");
  }
  try {
    require(!read_setup_link(text).configs.empty(), "a set-up is of a run");
  } catch (const std::runtime_error& error) {
    require(std::string_view(error.what()).ends_with('.'), "a refusal is a sentence");
  }
  parse_lesson(text, "fuzzed.toml");
  return 0;
}
