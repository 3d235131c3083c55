// Finds the step in a printed line by a form of a mapping file (tag_map.h).
//
// In a form, {step} is the step; {epoch} the epoch, counted from 1, or {epoch0}, counted from 0; {steps} the steps of
// an epoch; {*} any text; {NAME} the value of this name: "^{step} train {train_loss}". A blank stands for any number of
// blanks, also none; ^ for the beginning of the line. With an epoch and the steps of an epoch, the step is counted on
// over the epochs: "Epoch:[2/3](100/45125)" is step 45,225.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace moescope {

struct PrintedStep {
  std::int64_t step = 0;
  bool is_epoch = false;                                    // the form has no {step}: the epoch counts
  std::size_t begin = 0, end = 0;                           // place in the line
  std::vector<std::pair<std::string, std::string>> values;  // name and number, as it is printed
};
std::optional<PrintedStep> printed_step(std::string_view line, const std::vector<std::string>& forms);
// True if a line may have a step in one of the forms: it has the text with which the form begins.
bool may_have_printed_step(std::string_view line, const std::vector<std::string>& forms);

}  // namespace moescope
