#include "widgets/compare/verdict_strip.h"

#include <QEvent>
#include <QPainter>
#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/findings/comparison/comparison.h"
#include "widgets/compare/verdict_table.h"
#include "widgets/look/counted_text.h"
#include "widgets/look/style.h"
#include "widgets/look/tokens.h"
#include "widgets/panel/panel.h"
#include "widgets/plots/axis.h"
#include "widgets/plots/color_scale.h"

namespace moescope {
VerdictStrip::VerdictStrip(Selection* selection, JudgedRuns* judged, QWidget* parent)
    : QWidget(parent), selection_(selection), judged_(judged) {
  setObjectName("verdict_strip");
  setAccessibleName("Verdict");
  setSizePolicy(QSizePolicy::Ignored, QSizePolicy::Fixed);
  settle_ = new FittedLabel(this);
  settle_->setRole(QPalette::PlaceholderText);
  settle_->setAlignment(Qt::AlignRight | Qt::AlignVCenter);
  settle_->setFont(typeFont(Type::secondary));
  button_ = new QPushButton(this);
  button_->setFocusPolicy(Qt::TabFocus);  // hiding the clicked button moves no focus
  button_->hide();
  connect(button_, &QPushButton::clicked, this, [this] {
    if (!is_newest_) return selection_->setFollowing(true);
    if (step_ > 0) return emit stepsRequested(step_);
    if (asks_for_seeds_) return emit seedsRequested();
    if (!judged_->live() || selection_->histories().size() == 1) return emit runWanted();
    force_ ? emit forcedBalanceRequested() : emit twinRequested();
  });
  explain_ = new QToolButton(this);
  explain_->setText(QStringLiteral("?"));
  explain_->setAutoRaise(true);
  explain_->setAccessibleName("Explanation of the verdicts");
  explain_->setToolTip("Meaning of the verdicts");
  connect(explain_, &QToolButton::clicked, this,
          [this] { emit explanationRequested(explain_->mapToGlobal(explain_->rect().bottomLeft())); });
  connect(selection_, &Selection::dataChanged, this, &VerdictStrip::fill);
  connect(judged_, &JudgedRuns::changed, this, &VerdictStrip::fill);
}

QSize VerdictStrip::sizeHint() const {
  return {600, withType(kVerdictHeight, fontMetrics())};
}

void VerdictStrip::setRegression(int run, const QString& word, Sign sign, const QString& place) {
  regression_run_ = run;
  regression_word_ = word;
  regression_sign_ = sign;
  regression_place_ = place;
  fill();
}

QString VerdictStrip::text() const {
  if (items_.empty()) return instead_.value(0);
  QString text;
  for (const Item& item : items_) {
    if (item.says_word) text += (text.isEmpty() ? QString() : QStringLiteral(". ")) + item.word + QLatin1Char(':');
    text += (item.says_word ? QStringLiteral(" ") : QStringLiteral(", ")) + item.letter + QLatin1Char(' ') +
            item.names.front();
  }
  return text;
}

void VerdictStrip::fill() {
  if (!isVisible()) return;
  std::vector<Item> items;
  instead_.clear();
  shows_health_ = false;
  if (judged_->update().isEmpty()) {
    for (const int place : judged_->candidates()) {
      const Conclusion c = judged_->earlierSeeds(place).value_or(judged_->conclusion(place));
      const QString word = QString::fromStdString(verdict_name(c));
      const Sign sign = signOf(c);
      items.push_back({word,
                       sign,
                       items.empty() || items.back().word != word || items.back().sign != sign,
                       runLetter(*selection_, place),
                       {runName(*selection_, place), {}},
                       runColor(*selection_, place)});
    }
    const auto is_open = [](const Item& item) { return item.word == QLatin1String(to_text(VerdictWord::not_judged)); };
    if (std::ranges::all_of(items, is_open)) {
      const bool has_gate = !regression_word_.isEmpty() && regression_run_ < std::ssize(selection_->histories());
      const std::vector<Item> healths = healthItems();
      shows_health_ = !healths.empty();
      if (has_gate || shows_health_) items = healths;
      if (has_gate && (items.empty() || regression_sign_ == Sign::bad))
        items.push_back({regression_word_,
                         regression_sign_,
                         true,
                         runLetter(*selection_, regression_run_),
                         {runName(*selection_, regression_run_) + regression_place_, {}},
                         runColor(*selection_, regression_run_)});
    }
    if (items.empty())
      instead_ = {"Only noise twins of run A are open: there is no candidate to judge", "No candidate"};
  } else if (selection_->histories().size() < 2) {
    instead_ = {judged_->live() ? "Nothing to compare: train another run beside this one, or open its recording or log"
                                : "Nothing to compare: open a second log or recording beside this one",
                "Nothing to compare"};
  } else {
    instead_ = {"Too early to tell: there is no step yet", "Too early to tell"};
  }
  const bool has_changed = std::exchange(items_, items) != items || items.empty();
  fillSettlement();
  if (!has_changed) return;
  setAccessibleDescription(text());
  setToolTip(text());
  place();
  update();
}

// The health of each log in the words of the line of its router, if one has a fault.
std::vector<VerdictStrip::Item> VerdictStrip::healthItems() const {
  std::vector<Item> items;
  bool has_fault = false;
  for (int run = 0; run < std::ssize(selection_->histories()); ++run) {
    const Health* health = !health_ || selection_->isNoiseTwin(run) || judged_->live() ? nullptr : health_(run);
    if (!health || health->last_step < 0) continue;
    has_fault |= health->verdict >= HealthVerdict::attention;
    QStringList names{printedText(health->sentence)};
    for (const std::string& form : health->shorter) names << printedText(form);
    for (QString& name : names) name = name.section(QStringLiteral(". "), 0, 0);
    names.removeDuplicates();
    QString word(health_verdict_name(health->verdict));
    if (health->last_step != selection_->shownStepOf(*selection_->histories()[run]))
      word += ", " + selection_->rangeText({health->last_step, health->last_step});
    items.push_back({word, signOf(health->verdict), true, runLetter(*selection_, run), names << QString(),
                     runColor(*selection_, run)});
  }
  return has_fault ? items : std::vector<Item>();
}

// "C", "B and C".
QString VerdictStrip::runsOf(const Settlement& found) const {
  const std::vector<int> places = judged_->candidates();
  QStringList letters;
  for (const std::size_t settled : found.settled) letters << runLetter(*selection_, places[settled]);
  if (letters.isEmpty()) letters << runLetter(*selection_, places[found.widest]);
  return listed(letters);
}

// For runs that read different text from a step on.
QStringList VerdictStrip::otherTextForms(const Conclusion& c) const {
  const QString step = formatCount(c.other_text_from);
  const QString from =
      QString("From step %1 on the runs read different text: their losses cannot be compared").arg(step);
  QStringList forms{from, QString("Losses cannot be compared from step %1 on").arg(step),
                    QString("Different text from step %1").arg(step)};
  if (is_missing(c.gap)) return forms;
  const QString gap = QString("Loss gap %1%2 before step %3").arg(c.gap > 0 ? "+" : "", formatValue(c.gap, 2), step);
  return QStringList{gap + ", then different text: losses cannot be compared", gap + ", then different text"} +
         forms.mid(1);
}

// "B not told apart, C and D worse".
QString VerdictStrip::verdictsText(std::span<const Conclusion> candidates) const {
  const std::vector<int> places = judged_->candidates();
  QStringList verdicts;
  std::vector<std::pair<QString, QStringList>> groups;
  for (std::size_t i = 0; i < places.size(); ++i) {
    const QString word = QString::fromStdString(verdict_text(verdict_word(candidates[i])));
    if (groups.empty() || groups.back().first != word) groups.push_back({word, {}});
    groups.back().second << runLetter(*selection_, places[i]);
  }
  for (const auto& [word, letters] : groups) verdicts << listed(letters) + QLatin1Char(' ') + word;
  return verdicts.join(QStringLiteral(", "));
}

// The verdicts at the cursor are in the line; the present ones are named beside them.
QStringList VerdictStrip::pastForms() const {
  const QString step = formatCount(selection_->step());
  if (shows_health_)
    return {QString("Routers at the last steps, panels at step %1").arg(step), "Cursor at step " + step};
  const QString present_verdicts = QString("at step %1: %2")
                                       .arg(formatCount(selection_->histories()[judged_->baseline()]->steps().last),
                                            verdictsText(judged_->newestConclusions()));
  return {QString("Verdicts at step %1, at the cursor; %2").arg(step, present_verdicts),
          QString("At step %1; %2").arg(step, present_verdicts), QString("Cursor at step %1").arg(step)};
}

// True at the end of runs whose verdicts another seed may change, where no noise twin is missing.
bool VerdictStrip::asksForSeeds(const Settlement& found) const {
  const bool steps_or_nothing = found.how == Settlement::How::nothing || found.how == Settlement::How::more_steps;
  return judged_->live() && judged_->goal() == 0 && !is_before_its_end(*selection_->histories().front()) &&
         steps_or_nothing && judged_->dependsOnSeed();
}

// After the last of several seeds.
QStringList VerdictStrip::seedForms() const {
  const QString steps = formatCount(judged_->conclusion(judged_->candidates().front()).steps.last + 1);
  const QString seeds = QString("Means of %1, %2 steps each").arg(judged_->seedText(), steps);
  QStringList forms;
  for (const QString& open : judged_->openSeedsForms())
    forms << seeds + QStringLiteral(". ") + open << judged_->seedText() + QStringLiteral(". ") + open;
  return forms << seeds << judged_->seedText();
}

// When the training ends; empty: it has ended, or goes on without an end.
QStringList VerdictStrip::endForms() const {
  const History& a = *selection_->histories().front();
  const std::int64_t steps = a.settings_at_start()->value(&OptimizerConfig::total_steps).value_or(0);
  const std::int64_t end = judged_->goal() > 0 && judged_->goal() < INT64_MAX ? judged_->goal() : steps;
  const std::int64_t steps_left = end - 1 - a.steps().last + judged_->seedsLeft() * steps;
  if (!judged_->live() || steps_left <= 0) return {};
  const QString words =
      (judged_->seedsLeft() > 0 ? QString("All seeds end at step %1") : QString("Training ends at step %1"))
          .arg(formatCount(end));
  const float seconds = judged_->secondsPerStep();
  if (is_missing(seconds)) return {words};
  return {QString("%1 (%2)").arg(words, aboutDuration(seconds * static_cast<double>(steps_left))), words};
}

// For checkpoints, for open verdicts that nothing would settle, and for what the verdicts leave out.
QStringList VerdictStrip::undetectedForms() const {
  const auto is_worse = [](const Item& item) { return item.word == QLatin1String(to_text(VerdictWord::worse)); };
  if (!comparesForced(*selection_) && items_.size() > 1 && std::ranges::all_of(items_, is_worse))
    return {QString("None is as good as %1").arg(judged_->baselineLetter())};
  for (const int place : judged_->candidates()) {
    const Conclusion& c = judged_->conclusion(place);
    if (onTheSameTexts(*selection_)) return {is_missing(c.gap) ? "One batch of text gives no interval" : ""};
    if (c.other_text_from >= 0) return otherTextForms(c);
  }
  if (!judged_->dependsOnSeed() || !judged_->seedText().isEmpty()) return {};
  return {"One seed: another may give another verdict", "One seed only"};
}

QStringList VerdictStrip::settlementForms(const Settlement& found) const {
  switch (found.how) {
    case Settlement::How::nothing:
      if (const QStringList forms = endForms(); !forms.isEmpty()) return forms;
      return undetectedForms();
    case Settlement::How::first_twin:
      if (!judged_->live())
        return {"Loss gap not judged: another log with A's settings would give it an interval",
                "Loss gap not judged: it has no interval", "Loss gap not judged"};
      return {"A noise twin of A would show how large a gap chance causes", "A noise twin is missing"};
    case Settlement::How::another_twin: {
      const QString runs = runsOf(found), interval = inPrint(QString::number(found.half_width, 'g', 2));
      if (found.settled.empty())
        return {QString("One more noise twin: gap of %1 known to ±%2").arg(runs, interval),
                QString("One more noise twin: %1 known to ±%2").arg(runs, interval), "One more noise twin"};
      return {QString("One more noise twin: verdict on %1, gap known to ±%2").arg(runs, interval),
              QString("One more noise twin: verdict on %1").arg(runs)};
    }
    case Settlement::How::forced_balance:
      return {QString("The routing moves losses by more than the gap of %1; forced balance removes this chance")
                  .arg(runsOf(found)),
              QString("The routing moves losses by more than the gap of %1").arg(runsOf(found))};
    case Settlement::How::more_steps:
      break;
  }
  const bool has_twin = selection_->histories().size() > judged_->candidates().size() + 1;
  if (!judged_->live() && !has_twin)
    return {QString("A verdict needs %1 more and another log with the settings of A")
                .arg(countedText(found.missing_steps, "step")),
            "Too few steps"};
  const bool is_for_all = found.settled.size() == judged_->candidates().size();
  const QString verdict = (is_for_all ? QString("Verdict") : QString("Verdict on %1").arg(runsOf(found))) +
                          (found.confirms ? " confirmed in " : " in ") + countedText(found.missing_steps, "step"),
                condition = found.if_it_holds ? QString(" if it holds") : QString();
  const float seconds = judged_->secondsPerStep();
  if (is_missing(seconds)) return {verdict + condition, verdict};
  const double wait = seconds * static_cast<double>(found.missing_steps);
  return {QString("%1%2 (%3)").arg(verdict, condition, aboutDuration(wait)), verdict + condition, verdict};
}

void VerdictStrip::fillSettlement() {
  is_newest_ = !instead_.isEmpty() || judged_->lastStep() == kNoLastStep;
  Settlement found;
  QStringList forms;
  asks_for_seeds_ = false;
  if (instead_.isEmpty()) {
    if (is_newest_) found = judged_->settlement();
    asks_for_seeds_ = is_newest_ && asksForSeeds(found);
    const bool is_series =
        judged_->earlierSeeds(judged_->candidates().empty() ? -1 : judged_->candidates().front()).has_value();
    if (asks_for_seeds_ || is_series) found = {};
    forms = is_newest_ ? settlementForms(found) : pastForms();
    if (judged_->isOverSeeds()) {
      forms = seedForms();
    } else if (QString seed = judged_->seedText(); !seed.isEmpty()) {
      seed.front() = seed.front().toUpper();
      if (is_series)
        seed.prepend(QString("Verdicts of %1. ").arg(countedText(to_int(judged_->seeds().size()), "seed")));
      if (forms.isEmpty()) forms << QString();
      for (QString& form : forms) form.prepend(seed + (form.isEmpty() ? "" : ". "));
    }
  }
  kept_settlement_ = forms.value(forms.size() - 1);
  settle_->setTexts(forms);
  const bool steps = found.how == Settlement::How::more_steps;
  const bool is_training = judged_->goal() > 0;
  const bool is_alone = selection_->histories().size() == 1;
  const bool offered = is_alone || !is_newest_ || asks_for_seeds_ ||
                       (found.how != Settlement::How::nothing && (!steps || (judged_->live() && !is_training)));
  step_ = steps ? found.step : 0;
  force_ = found.how == Settlement::How::forced_balance;
  QString words = "+ Noise twin",
          tip =
              "Trains run A once more beside the open runs, its first weights perturbed in the last place: this noise "
              "twin shows how large a gap chance alone causes (Ctrl+Shift+N)";
  if (!is_newest_) {
    words = "Newest step";
    tip = "Moves the cursor to the newest step, and with it all verdicts (End)";
  } else if (!judged_->live()) {
    words = is_alone ? "+ Log" : "+ Log with A's settings...";
    tip =
        "Opens another log or recording beside these. A log with the settings of run A is its noise twin: it shows how "
        "large a gap chance alone causes";
  } else if (is_alone) {
    words = "Compare with...";
    tip = "Trains a twin of run A with another value of a setting beside it (C)";
  } else if (asks_for_seeds_) {
    words = QString("Train %1 more seeds").arg(judged_->seedsToAdd());
    tip =
        "Trains these runs again from step 0 with the next seeds, one after another, to the end that their settings "
        "plan. All rows then have the mean gaps of all seeds up to that step. Each recording is kept";
    double seconds = 0;
    for (const HistoryPtr& run : selection_->histories())
      seconds += static_cast<double>(run->steps().size() * run->info().tokens_per_step) /
                 run_figures(*run, run->steps()).tokens_per_s;
    if (std::isfinite(seconds)) tip.prepend("Takes " + aboutDuration(judged_->seedsToAdd() * seconds) + ". ");
  } else if (steps) {
    words = QString("Train to step %1").arg(formatCount(found.step));
    tip = "Trains all open runs up to this step";
  } else if (force_) {
    words = "Force balance";
    tip =
        "Starts all open runs again with forced balance, which gives each token its experts in turn: the verdicts are "
        "then about arithmetic alone, not about effects on the routing";
  }
  if (button_->text() == words && button_->isHidden() != offered) return place();
  button_->setText(words);
  button_->setToolTip(tip);
  button_->setVisible(offered);
  place();
}

int VerdictStrip::nameWidth(std::size_t item) const {
  const QString& name = items_[item].names[forms_[item]];
  return name.isEmpty() ? 0 : QFontMetrics(typeFont(Type::body)).horizontalAdvance(name) + kSpace12;
}

int VerdictStrip::itemsWidth() const {
  const QFontMetrics words(typeFont(Type::body, true)), plain(typeFont(Type::body));
  if (items_.empty()) return plain.horizontalAdvance(instead_.value(0));
  int width = 0;
  for (std::size_t i = 0; i < items_.size(); ++i) {
    if (items_[i].says_word)
      width += withType(kMarkSize, words) + kSpace8 + words.horizontalAdvance(items_[i].word) + kSpace8 +
               (width > 0 ? kSpace12 : 0);
    width += withType(kChipSize, words) + kSpace8 + nameWidth(i);
  }
  return width;
}

// Places the parts by hand, because a layout would rearrange the whole workspace whenever a word changes.
void VerdictStrip::place() {
  int right = width() - kSpace12;
  const auto put = [&](QWidget* widget) {
    const QSize size = widget->sizeHint();
    widget->setGeometry(right - size.width(), (height() - size.height()) / 2, size.width(), size.height());
    right -= size.width() + kSpace8;
  };
  put(explain_);
  if (!button_->isHidden()) put(button_);
  const int room = right - kSpace12;
  // The widest name is shortened first.
  const int kept_width = QFontMetrics(settle_->font()).horizontalAdvance(kept_settlement_);
  forms_.assign(items_.size(), 0);
  while (itemsWidth() + kept_width + (kept_width > 0 ? kSpace16 : 0) > room) {
    std::vector<std::size_t> order(items_.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::erase_if(order, [this](std::size_t i) { return forms_[i] + 1 >= items_[i].names.size(); });
    if (order.empty()) break;
    ++forms_[*std::ranges::max_element(order, {}, [this](std::size_t i) { return nameWidth(i); })];
  }
  const int left_x = kSpace12 + itemsWidth() + kSpace16;
  settle_->setGeometry(left_x, 0, std::max(0, right - left_x), height());
  update();
}

void VerdictStrip::paintEvent(QPaintEvent*) {
  QPainter painter(this);
  const Colors& c = colors(palette());
  const QRect strip = rect();
  drawRounded(painter, strip, kRadiusPanel, QColor(c.surface), QColor(c.hairline));
  const QFontMetrics words(typeFont(Type::body, true)), plain(typeFont(Type::body));
  int x = kSpace12;
  if (items_.empty()) {
    painter.setFont(typeFont(Type::body));
    painter.setPen(QColor(c.ink2));
    const int room = strip.width() - 2 * kSpace12;
    painter.drawText(strip.adjusted(x, 0, 0, 0), Qt::AlignVCenter | Qt::AlignLeft, fittingText(instead_, plain, room));
    return;
  }
  const auto middle = [&](int size) { return QRect(x, (strip.height() - size) / 2, size, size); };
  for (std::size_t i = 0; i < items_.size(); ++i) {
    const Item& item = items_[i];
    if (item.says_word) {
      if (x > kSpace12) x += kSpace12;
      const int mark = withType(kMarkSize, words);
      paintSign(painter, middle(mark), item.sign, isDark(palette()));
      x += mark + kSpace8;
      painter.setFont(typeFont(Type::body, true));
      painter.setPen(signColor(item.sign, isDark(palette())));
      painter.drawText(QRect(x, 0, strip.width(), strip.height()), Qt::AlignVCenter | Qt::AlignLeft, item.word);
      x += words.horizontalAdvance(item.word) + kSpace8;
    }
    const int chip = withType(kChipSize, words);
    paintChip(painter, middle(chip), item.letter, seriesColor(item.color, isDark(palette())));
    x += chip + kSpace8;
    painter.setFont(typeFont(Type::body));
    painter.setPen(QColor(c.ink));
    painter.drawText(QRect(x, 0, strip.width(), strip.height()), Qt::AlignVCenter | Qt::AlignLeft,
                     item.names[forms_[i]]);
    x += nameWidth(i);
  }
}

bool VerdictStrip::event(QEvent* event) {
  if (event->type() == QEvent::ApplicationFontChange) {
    settle_->setFont(typeFont(Type::secondary));
    updateGeometry();
  }
  const bool done = QWidget::event(event);
  if (event->type() == QEvent::LayoutRequest) place();
  return done;
}

}  // namespace moescope
