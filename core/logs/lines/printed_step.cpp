#include "core/logs/lines/printed_step.h"

#include <algorithm>
#include <array>
#include <charconv>

#include "core/logs/lines/printed_number.h"

namespace moescope {

namespace {

// Places at which a form is looked for, and those at which the texts behind all its {*} are.
constexpr std::size_t kMaxTries = 64, kMaxTriesOfForm = 512;
constexpr std::int64_t kMaxSteps = 1'000'000'000;

struct Numbers {
  std::int64_t step = -1, epoch = -1, epoch0 = -1, steps = -1;
  std::vector<std::pair<std::string, std::string>> values;
};

void skip_blanks(std::string_view& text) {
  text.remove_prefix(std::min(text.find_first_not_of(" \t"), text.size()));
}

bool take_number(std::string_view& text, std::int64_t& number) {
  skip_blanks(text);
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || number < 0 || number > kMaxSteps) return false;
  text.remove_prefix(end - text.data());
  return true;
}

// Removes the matched part of `text`.
bool matches(std::string_view form, std::string_view& text, Numbers& numbers, std::size_t& tries) {
  const std::array<std::pair<std::string_view, std::int64_t*>, 4> places = {{{"{step}", &numbers.step},
                                                                             {"{epoch}", &numbers.epoch},
                                                                             {"{epoch0}", &numbers.epoch0},
                                                                             {"{steps}", &numbers.steps}}};
  constexpr std::string_view kAny = "{*}";
  while (!form.empty()) {
    const auto place =
        std::ranges::find_if(places, [&](const auto& candidate) { return form.starts_with(candidate.first); });
    if (place != places.end()) {
      if (!take_number(text, *place->second)) return false;
      form.remove_prefix(place->first.size());
    } else if (form.starts_with(kAny)) {
      form.remove_prefix(kAny.size());
      for (std::size_t at = 0; at <= text.size() && tries < kMaxTriesOfForm; ++at) {
        if (!form.empty() && (at == text.size() || text[at] != form.front())) continue;
        ++tries;
        std::string_view unread = text.substr(at);
        if (!matches(form, unread, numbers, tries)) continue;
        text = unread;
        return true;
      }
      return false;
    } else if (form.front() == '{') {
      skip_blanks(text);
      const std::string_view number = text.substr(0, number_length(text));
      if (number.empty()) return false;
      const std::string_view name = form.substr(1, form.find('}') - 1);
      numbers.values.emplace_back(name, number);
      form.remove_prefix(std::min(name.size() + 2, form.size()));
      text.remove_prefix(number.size());
    } else if (form.front() == ' ') {
      form.remove_prefix(1);
      skip_blanks(text);
    } else {
      if (!text.starts_with(form.front())) return false;
      form.remove_prefix(1);
      text.remove_prefix(1);
    }
  }
  return true;
}

// Returns the next place from `at` on at which the form may begin; npos: there is none.
std::size_t next_place(std::string_view line, std::string_view form, std::size_t at) {
  const bool is_at_begin = form.starts_with('^');
  if (is_at_begin) form.remove_prefix(1);
  const std::string_view beginning = form.substr(0, form.find_first_of("{ "));
  if (!is_at_begin) return beginning.empty() ? std::string_view::npos : line.find(beginning, at);
  const bool fits = beginning.empty() ? !line.empty() && line[0] >= '0' && line[0] <= '9' : line.starts_with(beginning);
  return at == 0 && fits ? 0 : std::string_view::npos;
}

}  // namespace

bool may_have_printed_step(std::string_view line, const std::vector<std::string>& forms) {
  return std::ranges::any_of(forms, [&](std::string_view form) { return next_place(line, form, 0) != line.npos; });
}

std::optional<PrintedStep> printed_step(std::string_view line, const std::vector<std::string>& forms) {
  for (const std::string_view form : forms) {
    std::size_t at = next_place(line, form, 0), tries_of_form = 0;
    for (std::size_t tries = 0; at != line.npos && tries < kMaxTries; ++tries) {
      Numbers numbers;
      std::string_view unread = line.substr(at);
      const bool fits = matches(form.substr(form.starts_with('^') ? 1 : 0), unread, numbers, tries_of_form);
      if (fits && numbers.step < 0 && numbers.epoch >= 0 && !unread.starts_with('.'))
        return PrintedStep{numbers.epoch, true, at, line.size() - unread.size(), {}};
      if (fits && numbers.step >= 0) {
        const std::int64_t epochs = numbers.epoch0 >= 0 ? numbers.epoch0 : std::max<std::int64_t>(0, numbers.epoch - 1);
        const std::int64_t before = numbers.steps > 0 ? epochs * numbers.steps : 0;
        if (numbers.steps <= 0 && numbers.epoch + numbers.epoch0 > -2)  // the steps may begin again in every epoch
          numbers.values.emplace_back("epoch", std::to_string(epochs));
        return PrintedStep{before + numbers.step, false, at, line.size() - unread.size(), std::move(numbers.values)};
      }
      at = next_place(line, form, at + 1);
    }
  }
  return std::nullopt;
}

}  // namespace moescope
