// Batches from text files: sequences begin at any place in the text with equal probability.
#include <fmt/core.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <stdexcept>

#include "core/files/folder_walk.h"
#include "core/files/text/text_encoding.h"
#include "core/model/text/dataset.h"
#include "core/model/text/domain_generator.h"

namespace moescope {
namespace {

namespace fs = std::filesystem;

// Limit of the text that is read into memory; far more than a model of this size reads in a day.
constexpr std::int64_t kMaxTextBytes = std::int64_t{512} << 20;
constexpr std::size_t kPieceBytes = std::size_t{1} << 20;  // bytes of text that are tokenized at a time

struct TextDomain {
  std::string name;
  std::string text;               // empty if there are ids
  std::vector<std::int32_t> ids;  // token ids of the tokenizer; empty: tokens are the bytes of `text`
  std::size_t tokens() const { return ids.empty() ? text.size() : ids.size(); }
};

struct Collection {
  std::string path;  // as the user gave it
  GoesOn goes_on;
  std::vector<TextDomain> domains;
  bool needs_utf8 = false;  // the tokens are those of a tokenizer
  std::int64_t bytes = 0;
  int files = 0, binary = 0, not_utf8 = 0, unreadable = 0, outside = 0, short_domains = 0;
  std::string binary_reason, not_utf8_reason, unreadable_reason;  // of the first file of each kind

  void require_going_on() const {
    if (goes_on && !goes_on()) throw std::runtime_error(path + ": reading it was cancelled");
  }
  void add_bytes(std::int64_t more) {
    require_going_on();
    bytes += more;
    if (bytes > kMaxTextBytes)
      throw std::runtime_error(fmt::format(
          "{}: holds more than {} MiB of files, which is more than this program reads: choose a smaller file or folder",
          path, kMaxTextBytes >> 20));
  }
};

bool has_nul(std::string_view bytes) {
  return bytes.find('\0') != std::string_view::npos;
}

// Reads only the beginning of a binary file, which is enough to recognise it.
bool read_file(Collection& all, const fs::path& path, std::string& text) {
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  char chunk[1 << 16];
  while (file.read(chunk, sizeof chunk) || file.gcount() > 0) {
    all.add_bytes(file.gcount());
    const std::string_view read(chunk, file.gcount());
    text += read;
    if (has_nul(read)) return true;
  }
  if (file.eof()) return true;
  if (all.unreadable++ == 0) all.unreadable_reason = path.string() + ": " + std::strerror(errno != 0 ? errno : EIO);
  return false;
}

// Adds a file to the text of its domain. Skips files with NUL bytes, which count as binary, and files that are not
// UTF-8 if the text is tokenized: a tokenizer would read other characters.
void add_file(Collection& all, const fs::path& path, std::string& domain_text) {
  std::string text;
  const std::int64_t before = all.bytes;
  if (!read_file(all, path, text)) return;
  const auto skip = [&](int& count, std::string& reason, const std::string& problem) {
    if (count++ == 0) reason = path.string() + ": " + problem;
    all.bytes = before;
  };
  const std::string encoding = encoding_problem(text);
  if (!encoding.empty() || has_nul(text))
    return skip(all.binary, all.binary_reason, encoding.empty() ? "has NUL bytes" : encoding);
  if (all.needs_utf8)
    if (const std::string problem = text_problem(text); !problem.empty())
      return skip(all.not_utf8, all.not_utf8_reason, problem);
  if (text.empty()) return;
  ++all.files;
  domain_text += text;
  if (domain_text.back() != '\n') domain_text += '\n';
}

// Sorts by name, because file systems list a folder in different orders.
std::vector<fs::path> sorted_entries(Collection& all, const fs::path& folder) {
  std::error_code error;
  std::vector<fs::path> entries;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    all.require_going_on();
    entries.push_back(it->path());
  }
  if (error && all.unreadable++ == 0) all.unreadable_reason = folder.string() + ": " + error.message();
  std::sort(entries.begin(), entries.end());
  return entries;
}

// Follows links to files in the folder, but not links to folders, because they could lead back to a folder above.
void add_entry(Collection& all, const fs::path& path, std::string& domain_text) {
  std::error_code error;
  if (fs::is_symlink(path, error) && path != all.path && leads_out_of(all.path, path)) {
    ++all.outside;
  } else if (fs::is_regular_file(path, error)) {
    // Files of size 0 are empty, or files of the kernel that might block for ever.
    if (fs::file_size(path, error) > 0) add_file(all, path, domain_text);
  } else if (fs::is_directory(fs::symlink_status(path, error))) {
    for (const fs::path& entry : sorted_entries(all, path)) add_entry(all, entry, domain_text);
  }
}

Collection collect(const std::string& path, bool needs_utf8, const GoesOn& goes_on) {
  Collection all;
  all.needs_utf8 = needs_utf8;
  all.path = path;
  all.goes_on = goes_on;
  std::error_code error;
  const auto status = fs::status(path, error);
  if (!fs::exists(status))
    throw std::runtime_error(path + ": " + (error ? error.message() : "no such file or folder") +
                             ": expected a text file or a folder of text files");
  if (!fs::is_regular_file(status) && !fs::is_directory(status))
    throw std::runtime_error(path + ": is neither a file nor a folder: expected a text file or a folder of text files");
  const auto entries = fs::is_directory(status) ? sorted_entries(all, path) : std::vector<fs::path>{path};
  for (const fs::path& entry : entries) {
    TextDomain domain{entry.filename().string(), {}, {}};
    add_entry(all, entry, domain.text);
    if (!domain.text.empty()) all.domains.push_back(std::move(domain));
  }
  return all;
}

std::string skipped_text(const Collection& all) {
  std::string text;
  const auto add = [&](int count, const std::string& what) {
    if (count > 0) text += fmt::format("{}{} {}", text.empty() ? "" : ", ", count, what);
  };
  add(all.binary, "binary (" + all.binary_reason + ")");
  add(all.not_utf8, "not UTF-8 (" + all.not_utf8_reason + ")");
  add(all.unreadable, "unreadable (" + all.unreadable_reason + ")");
  add(all.outside, all.outside == 1 ? "link out of the folder" : "links out of the folder");
  add(all.short_domains, "too short");
  return text;
}

// Replaces the text of each domain by its tokens. The text is tokenized in pieces of about kPieceBytes that end with a
// line, so that tokens at the ends of pieces may differ from those of the whole text.
void tokenize(Collection& all, const Tokenizer& tokenizer) {
  for (TextDomain& domain : all.domains) {
    for (std::string_view unread = domain.text; !unread.empty();) {
      all.require_going_on();
      const std::size_t end = unread.size() > kPieceBytes ? unread.find('\n', kPieceBytes) : std::string_view::npos;
      const std::string_view piece = unread.substr(0, end == std::string_view::npos ? end : end + 1);
      const std::vector<std::int32_t> ids = tokenizer.encode(piece, SpecialTokenUse::without);
      domain.ids.insert(domain.ids.end(), ids.begin(), ids.end());
      unread.remove_prefix(piece.size());
    }
    domain.text = {};
  }
}

// Removes domains with fewer than S + 1 tokens. A sequence needs S + 1 tokens, because the last target is one beyond
// the last input.
void drop_short_domains(Collection& all, std::size_t needed, const std::string& unit) {
  std::size_t longest = 0;
  for (const TextDomain& domain : all.domains) longest = std::max(longest, domain.tokens());
  if (longest < needed) {
    std::string message = all.path + ": ";
    message += longest == 0 ? "holds no text" : fmt::format("the longest text has {} {}", longest, unit);
    const std::string skipped = skipped_text(all);
    if (!skipped.empty()) message += " (skipped: " + skipped + ")";
    throw std::runtime_error(
        fmt::format("{}: expected at least {} {} for data.seq = {}", message, needed, unit, needed - 1));
  }
  all.short_domains = to_int(std::erase_if(all.domains, [&](const auto& d) { return d.tokens() < needed; }));
}

class TextDataset : public Dataset {
 public:
  TextDataset(const DataConfig& config, std::int64_t seed, std::unique_ptr<const Tokenizer> tokenizer, Collection all)
      : Dataset(config, seed, std::move(tokenizer)), places_(seed, "data.text_places"), all_(std::move(all)) {
    std::uint64_t starts = 0;
    for (const TextDomain& domain : all_.domains) {
      trained_.push_back(trained_tokens(domain.tokens()));
      add_domain(domain.name, trained_.back() < domain.tokens());
      starts += trained_.back() - config.seq;
      starts_.push_back(starts);
    }
  }

  std::string summary() const override {
    std::string text =
        fmt::format("{}{}{:.2f} MB of text in {}{}", all_.files, all_.files == 1 ? " file, " : " files, ",
                    all_.bytes * 1e-6, all_.domains.size(), all_.domains.size() == 1 ? " domain" : " domains");
    const std::string skipped = skipped_text(all_);
    return skipped.empty() ? text : text + "; skipped: " + skipped;
  }

 private:
  void fill_row(Batch& batch, int row, std::uint64_t index, const Mixture& mixture) const override {
    Draws draws(places_, index);
    auto domain = mixture.empty() ? std::ptrdiff_t{0} : std::ptrdiff_t{mixture.domain_of(index)};
    const auto first_start = [&] { return domain == 0 ? 0 : starts_[domain - 1]; };
    std::uint64_t offset = 0;
    if (mixture.empty()) {
      const std::uint64_t place = draws.below64(starts_.back());
      domain = std::upper_bound(starts_.begin(), starts_.end(), place) - starts_.begin();
      offset = place - first_start();
    } else {
      offset = draws.below64(starts_[domain] - first_start());
    }
    fill(batch, row, to_int(domain), offset);
  }

  void fill_held_out(Batch& batch, int row, std::uint64_t index, int domain) const override {
    const std::size_t trained = trained_[domain];
    const std::size_t held = all_.domains[domain].tokens() - trained;
    Draws draws(held_out_places_, index);
    fill(batch, row, domain, trained + draws.below64(held - config_.seq));
  }

  // Fills a row with the tokens of a domain from `first` on.
  void fill(Batch& batch, int row, int domain, std::size_t first) const {
    const TextDomain& source = all_.domains[domain];
    const std::size_t tokens = static_cast<std::size_t>(config_.seq) + 1;
    if (source.ids.empty())
      fill_sequence(batch, row, domain, byte_tokens(std::string_view(source.text).substr(first, tokens)));
    else
      fill_sequence(batch, row, domain, std::span<const std::int32_t>(source.ids).subspan(first, tokens));
  }

  // Returns how many of the first tokens of a text of `size` tokens are for training; the others are held out. Each
  // part holds at least one sequence. If that is impossible, or data.held_out is 0, all of the text is for training.
  std::size_t trained_tokens(std::size_t size) const {
    const std::size_t needed = static_cast<std::size_t>(config_.seq) + 1;
    if (config_.held_out <= 0 || size < 2 * needed) return size;
    const auto part = static_cast<std::size_t>(config_.held_out * size);
    return size - std::clamp(part, needed, size - needed);
  }

  RandomStream places_, held_out_places_{0, "data.held_out_places"};
  Collection all_;
  std::vector<std::size_t> trained_;   // tokens of each text before its held-out part
  std::vector<std::uint64_t> starts_;  // cumulative number of places where a sequence can begin
};

}  // namespace

std::unique_ptr<Dataset> open_text_dataset(const DataConfig& config, std::int64_t seed,
                                           std::unique_ptr<const Tokenizer> tokenizer, const GoesOn& goes_on) {
  Collection all = collect(config.path, tokenizer != nullptr, goes_on);
  if (tokenizer) tokenize(all, *tokenizer);
  all.goes_on = {};  // the objects that it captures may not live longer
  drop_short_domains(all, static_cast<std::size_t>(config.seq) + 1, tokenizer ? "tokens" : "bytes");
  return std::make_unique<TextDataset>(config, seed, std::move(tokenizer), std::move(all));
}

}  // namespace moescope
