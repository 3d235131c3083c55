#include "core/logs/lines/saved_checkpoint.h"

#include "core/files/text/words.h"

namespace moescope {

std::optional<SavedCheckpoint> saved_checkpoint(std::string_view line) {
  constexpr std::size_t kLongestSavedLine = 65536;
  constexpr std::ptrdiff_t kMaxDigitsOfSavedStep = 15;
  // Returns the number that follows `words`, and is the end of the line or followed by no letter or point.
  const auto number_after = [&](std::string_view words) -> std::optional<std::int64_t> {
    const std::size_t found = line.rfind(words);
    if (found == std::string_view::npos || line.substr(0, found).ends_with("not ")) return std::nullopt;
    std::string_view text = trimmed(line.substr(found + words.size()), " \t\r");
    text = text.substr(0, text.find_first_not_of("0123456789"));
    std::int64_t step = 0;
    return std::ssize(text) <= kMaxDigitsOfSavedStep && read_number(text, step) ? std::optional(step) : std::nullopt;
  };
  if (line.size() > kLongestSavedLine || line.find("checkpoint") == std::string_view::npos) return std::nullopt;
  for (const char* words : {"saving checkpoint at iteration", "saved checkpoint from iteration"})
    if (const auto step = number_after(words)) return SavedCheckpoint{"iteration " + std::to_string(*step), step};
  if (line.find("Saving the checkpoint (or staging") != std::string_view::npos) return SavedCheckpoint{};
  if (line.find("Saving model checkpoint to ") == std::string_view::npos) return std::nullopt;
  const auto step = number_after("checkpoint-");
  return SavedCheckpoint{step ? "checkpoint-" + std::to_string(*step) : "", step};
}

}  // namespace moescope
