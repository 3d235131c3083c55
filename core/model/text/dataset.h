// Batches of tokens with domain labels, from text of a built-in generator or from text files. Tokens are bytes, or
// tokens of a tokenizer (data.tokenizer).
//
// Legend: B sequences, S tokens of each. Batches are a pure function of (data config, seed, step, mixture), so that
// runs in lock-step get equal batches and a resumed run continues with its next batch.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/config/mixture.h"
#include "core/config/run_config.h"
#include "core/model/tokenizer/tokenizer.h"

namespace moescope {

struct Batch {
  int sequences = 0, length = 0;
  std::vector<std::int32_t> input;         // [B*S]
  std::vector<std::int32_t> target;        // [B*S], the next token
  std::vector<std::uint8_t> padding = {};  // [B*S] 1: padding, which has no loss; empty: no padding
  // [B], index into Dataset::domains(); for a packed sequence, the domain of its first document.
  std::vector<std::int32_t> domain;
  std::vector<std::int32_t> token_domain = {};             // [B*S]; empty: the domain of the token's sequence
  const std::vector<std::string>* domain_names = nullptr;  // owned by the dataset; nullptr: domains have no names
  const Tokenizer* tokenizer = nullptr;                    // owned by the dataset; nullptr: tokens are bytes

  std::size_t real_tokens() const;  // number of tokens that are not padding
  std::int32_t domain_of(std::size_t token) const {
    return token_domain.empty() ? domain[token / length] : token_domain[token];
  }
};

inline constexpr int kHeldOutBatches = 4;

// Returns false if the caller no longer wants the data. An empty function counts as true.
using GoesOn = std::function<bool()>;

class Dataset {
 public:
  virtual ~Dataset() = default;
  const std::vector<std::string>& domains() const { return names_; }
  Batch batch(std::int64_t step, const Mixture& mixture) const;
  Batch batch(std::int64_t step) const { return batch(step, mixture_); }  // with the mixture given to open_dataset()
  // Returns kHeldOutBatches batches that share no text with batch(). Their sequences cycle through the domains and do
  // not depend on the seed. Batches of generated facts are drawn separately, but there are so few facts that batches
  // repeat them. Empty if no text is held out.
  std::vector<Batch> held_out() const;
  virtual std::string summary() const = 0;  // found and skipped files, as text for the user

  // All token ids are below this.
  const Tokenizer* tokenizer() const { return tokenizer_.get(); }  // nullptr: tokens are bytes
  std::int32_t vocabulary() const { return tokenizer_ ? tokenizer_->end() : 256; }

  // Returns the mixture for data.mixture = `text`. Throws std::invalid_argument as mixture_weights() does.
  Mixture mixture(const std::string& text) const;

 protected:
  Dataset(const DataConfig& config, std::int64_t seed, std::unique_ptr<const Tokenizer> tokenizer)
      : config_(config), tokenizer_(std::move(tokenizer)), seed_(seed) {}
  void add_domain(const std::string& name, bool holds_out);
  // Fill row `row` with sequence `index` of the run, or of the domain's held-out text.
  virtual void fill_row(Batch& batch, int row, std::uint64_t index, const Mixture& mixture) const = 0;
  virtual void fill_held_out(Batch& batch, int row, std::uint64_t index, int domain) const = 0;

  DataConfig config_;
  std::unique_ptr<const Tokenizer> tokenizer_;  // nullptr: tokens are bytes

 private:
  friend std::unique_ptr<Dataset> open_dataset(const DataConfig& config, std::int64_t seed, const GoesOn& goes_on);
  void pack(std::int64_t step, Batch& batch) const;
  void pad(std::int64_t step, Batch& batch) const;

  std::int64_t seed_;
  std::vector<std::string> names_;
  std::vector<int> held_out_;  // domains with held-out text
  Mixture mixture_;
};

Batch empty_batch(int sequences, int length);  // filled with zeros
std::vector<std::int32_t> byte_tokens(std::string_view text);
// Fills row `row` with the first S + 1 tokens of `ids`.
void fill_sequence(Batch& batch, int row, int domain, std::span<const std::int32_t> ids);

// Throws std::runtime_error if the text is unreadable, too short or missing (with the path, what was found and what is
// needed), if the tokenizer or the mixture is invalid, or if `goes_on` returned false.
std::unique_ptr<Dataset> open_dataset(const DataConfig& config, std::int64_t seed, const GoesOn& goes_on = {});
// open_dataset() for text files, whose path is in the config.
std::unique_ptr<Dataset> open_text_dataset(const DataConfig& config, std::int64_t seed,
                                           std::unique_ptr<const Tokenizer> tokenizer, const GoesOn& goes_on);

}  // namespace moescope
