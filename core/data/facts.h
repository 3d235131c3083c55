// Text in which experts matter: facts that can only be known by heart.
//
// Ten languages have the same 59 symbols. A text alternates the language's letter and a symbol, such as "QaQ7Q(Qm", and
// the next symbol follows from language and symbol alone: each language is one cycle through all symbols, in an order
// of its own. Those are 590 facts, the same for every seed, and no rule behind them: what a model knows of them takes
// up weights. One symbol in a hundred is drawn at random, so that no model has a loss below 0.048 nats/byte.
#pragma once

#include <span>

#include "core/data/domain_generator.h"

namespace moescope {

// A document goes on from the last symbol of `text`.
std::span<const Domain> fact_languages();  // in the order of kFactLanguages

}  // namespace moescope
