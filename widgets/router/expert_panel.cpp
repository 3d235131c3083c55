#include "widgets/router/expert_panel.h"

#include <QGridLayout>
#include <QPainter>
#include <QSignalBlocker>
#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <utility>

#include "core/files/text/text_escape.h"
#include "core/frame/frame.h"
#include "core/frame/router_stats.h"
#include "widgets/look/fitted_text.h"
#include "widgets/look/layouts.h"
#include "widgets/look/tokens.h"
#include "widgets/panel/byte_text.h"
#include "widgets/panel/controls.h"
#include "widgets/panel/metric_text.h"
#include "widgets/router/load_maps.h"
#include "widgets/selection/compared_runs.h"

namespace moescope {

QString shownBytes(std::string_view bytes) {
  QString text;
  for (std::size_t at = 0; at < bytes.size(); ++at) {
    const auto byte = static_cast<unsigned char>(bytes[at]);
    if (const QString character = longCharacter(bytes, at); !character.isEmpty()) {
      text += character;
      at += utf8_bytes(bytes, at) - 1;
    } else if (byte == '\n' || byte == '\t')
      text += byteGlyph(byte);
    else
      text += byte >= 32 && byte < 127 ? QChar(byte) : QChar(0xb7);
  }
  return text;
}

TokenContexts::TokenContexts(QWidget* parent) : PlotFrame(parent) {
  setFocusPolicy(Qt::NoFocus);
}

void TokenContexts::setLines(std::vector<Line> lines) {
  lines_ = std::move(lines);
  QStringList spoken;
  for (const Line& line : lines_) spoken << line.before + QLatin1Char('[') + line.token + QLatin1Char(']') + line.after;
  setAccessibleDescription(spoken.join(QStringLiteral("; ")));
}

int TokenContexts::linesThatFit() const {
  return std::max(0, (height() - fontMetrics().height() - 4) / (fontMetrics().height() + 1));
}

void TokenContexts::paintStatic(QPainter& painter) {
  painter.setPen(mutedText(palette()));
  const QRect line(4, 1, width() - 8, fontMetrics().height());
  painter.drawText(line, Qt::AlignLeft, elidedWords(title_, fontMetrics(), line.width()));
}

void TokenContexts::paintData(QPainter& painter) {
  const QFont fixed = formulaFont(font());
  const int step = fontMetrics().height() + 1;
  painter.setFont(fixed);
  const QFontMetrics metrics(fixed);
  const int middle = width() / 2;
  int y = fontMetrics().height() + 3;
  for (const Line& line : lines_) {
    if (y + step > height()) break;
    const int token_width = metrics.horizontalAdvance(line.token) + 2;
    const QRect token(middle - token_width / 2, y, token_width, step);
    QColor ground(colors(palette()).plain_bar);
    ground.setAlphaF(static_cast<float>(0.25 + 0.6 * std::clamp(line.share, 0.0, 1.0)));
    painter.fillRect(token, ground);
    painter.setPen(palette().text().color());
    painter.drawText(token, Qt::AlignCenter, line.token);
    painter.setPen(mutedText(palette()));
    painter.drawText(QRect(4, y, token.left() - 5, step), Qt::AlignRight | Qt::AlignVCenter, line.before);
    painter.drawText(QRect(token.right() + 2, y, width() - token.right() - 6, step), Qt::AlignLeft | Qt::AlignVCenter,
                     line.after);
    y += step;
  }
}

namespace {

constexpr const char* kUnknown = "The bias for each share of the tokens is not known";

QString biasText(double bias) {
  return withMinus(QString::number(bias, 'g', 3));
}

}  // namespace

FairSharePlot::FairSharePlot(const Selection* selection, QWidget* parent) : CurvePlot(parent), selection_(selection) {
  setAccessibleName("Share of the tokens by the expert's bias");
  setValueCaption("tokens with r below");
  setNotice(kUnknown);
  refill = [this] { fill(); };
  describe = [this](double bias) { return readoutOf(bias); };
  connect(selection, &Selection::changed, this, &PlotFrame::markDirty);
}

std::optional<FairSharePlot::Distribution> FairSharePlot::find() const {
  const History* history = selection_->history();
  const int layer = selection_->layer(), expert = selection_->expert();
  if (!history || history->steps().empty() || expert < 0) return std::nullopt;
  const auto frame = history->specialisation_layer_at(layer, selection_->step());
  if (!frame) return std::nullopt;
  const auto special = std::ranges::find(frame->specialisation, layer, &SpecialisationFrame::layer);
  const auto first = static_cast<std::size_t>(expert) * kBiasShares;
  if (special == frame->specialisation.end() || first + kBiasShares > special->bias_for_share_EQ.size())
    return std::nullopt;
  const RunInfo& info = history->info();
  const auto values = special->bias_for_share_EQ.begin() + first;
  Distribution found{.step = frame->step,
                     .expert = expert,
                     .top_k = history->settings_at(frame->step)->value(&RouterConfig::top_k).value_or(info.top_k),
                     .n_experts = info.n_experts,
                     .bias_for_share_Q = {values, values + kBiasShares}};
  const std::vector<float> bias_E = history->expert_bias(layer, {history->steps().first, frame->step}, 1);
  if (expert < std::ssize(bias_E) && !std::isnan(bias_E[expert])) found.bias = bias_E[expert];
  return found;
}

QString FairSharePlot::fairBiasText() const {
  const auto found = find();
  return found ? biasText(found->fair_bias()) : QString();
}

void FairSharePlot::fill() {
  shown_ = find();
  setNotice(shown_ ? QString() : QString(kUnknown));
  if (!shown_) return;
  const auto shares = bias_shares(shown_->top_k, shown_->n_experts);
  Curve curve{.label = QString("expert %1").arg(shown_->expert), .color = curveColor(*selection_), .points = {}};
  for (std::size_t q = 0; q < kBiasShares; ++q)
    curve.points.emplace_back(static_cast<double>(shown_->bias_for_share_Q[q]), shares[q]);
  double low = curve.points.front().x(), high = curve.points.back().x();
  const double fair = shown_->fair_bias();
  std::vector<Curve> curves;
  if (!is_missing(shown_->bias)) {
    const double bias = shown_->bias;
    low = std::min(low, bias);
    high = std::max(high, bias);
    curves.push_back({QString("its bias %1").arg(biasText(bias)), curveColor(*selection_, 1), {{bias, 0}, {bias, 1}}});
  }
  curves.push_back({QString("bias of the fair share %1").arg(biasText(fair)),
                    curveColor(*selection_, 2),
                    {{fair, 0}, {fair, shares[kFairShare]}}});
  curves.push_back(
      {"fair share K/E", curveColor(*selection_, 3), {{low, shares[kFairShare]}, {high, shares[kFairShare]}}});
  curves.push_back(std::move(curve));
  const QString unit = biasUnit(*selection_->history(), shown_->step);
  setXAxis(QString("r%1: bias at which score + bias equals the cutoff").arg(unit), low, high);
  setCurves(std::move(curves));
}

QStringList FairSharePlot::readoutOf(double bias) const {
  if (!shown_) return {};
  const double share = share_at_bias(shown_->bias_for_share_Q, shown_->top_k, shown_->n_experts, bias);
  return {QString("expert %1, r below %2:").arg(shown_->expert).arg(biasText(bias)),
          QString("%1 of the tokens, %2 times the fair share")
              .arg(formatPercent(share), formatValue(share * shown_->n_experts / shown_->top_k, 3))};
}

namespace {

constexpr std::size_t kContextBytes = 40;
// Heights from which curves, bars and texts can be read.
constexpr int kCurveHeight = 140, kBarsHeight = 120, kTextsHeight = 100;
constexpr std::size_t kMaxDomains = 4;
constexpr std::array kKinds = {TextKind::probe, TextKind::sample, TextKind::batch};

}  // namespace

ExpertPanel::ExpertPanel(Selection* selection, QWidget* parent)
    : Panel(selection, "Expert", Provenance::measured_here, parent) {
  expert_ = new QSpinBox(this);
  expert_->setPrefix("expert ");
  expert_->setSpecialValueText("no expert");
  expert_->setMinimum(-1);
  followFont(expert_, [this] {
    expert_->setMinimumWidth(expert_->fontMetrics().horizontalAdvance("expert 255") + 34);  // room for the arrows
  });
  expert_->setWrapping(true);
  expert_->setAccessibleName("Expert");
  addControl(makeSteps("Previous expert", "Next expert", [this](int direction) {
    const int experts = selection_->history() ? selection_->history()->info().n_experts : 0;
    if (experts > 0) selection_->setExpert((std::max(0, selection_->expert()) + direction + experts) % experts);
  }));
  addControl(expert_);
  addControl(new LayerCombo(selection, this));
  connect(expert_, &QSpinBox::valueChanged, selection_, &Selection::setExpert);
  connect(selection_, &Selection::focusChanged, this, &ExpertPanel::followChoice);
  connect(selection_, &Selection::dataChanged, this, &ExpertPanel::followChoice);

  fair_share_ = new FairSharePlot(selection, this);
  addTiles();
  load_ = new LinePlot(selection, this);
  load_->setAccessibleName("Load of the expert over time");
  load_->setCaption("load, \u00d7 fair share");
  load_->refill = [this] { refillLoad(); };
  bias_ = new LinePlot(selection, this);
  bias_->setAccessibleName("Bias of the expert over time");
  bias_->setCaption("bias");
  bias_->refill = [this] { refillBias(); };
  costs_ = new LinePlot(selection, this);
  costs_->setAccessibleName("Loss without the expert over time");
  costs_->setCaption("loss without it, nats/token");
  costs_->refill = [this] { refillCosts(); };
  domains_ = new BandBars(this);
  domains_->setFormatter([](double share) { return formatPercent(share); });
  domains_->setAccessibleName("Domains of the expert");
  domains_->refill = [this] { refillDomains(); };
  tokens_ = new TokenContexts(this);
  tokens_->setAccessibleName("Favourite tokens of the expert");
  tokens_->refill = [this] { refillTokens(); };
  for (PlotFrame* plot : std::initializer_list<PlotFrame*>{domains_, tokens_}) followSelection(plot);
  addBody(load_, 3);
  addBody(bias_, 3);
  addBody(fair_share_, 3);
  addBody(costs_, 3);
  addBody(domains_, 2);
  addBody(tokens_, 4);
  addActions();
  followChoice();
}

void ExpertPanel::followChoice() {
  const QSignalBlocker quiet(expert_);
  const int expert = selection_->expert();
  expert_->setMaximum(selection_->history() ? selection_->history()->info().n_experts - 1 : -1);
  expert_->setValue(expert);
  setHeading(expert < 0 ? title() : QString("Expert %1 of layer %2").arg(expert).arg(selection_->layer()));
  refreshActions();
  hidePartsWithoutData();
}

void ExpertPanel::showEvent(QShowEvent* event) {
  hidePartsWithoutData();
  Panel::showEvent(event);
}

void ExpertPanel::resizeEvent(QResizeEvent* event) {
  Panel::resizeEvent(event);
  hidePartsWithoutData();
}

// Hides what has no data, and plots for which there is no room below the figures, the first ones last.
void ExpertPanel::hidePartsWithoutData() {
  if (!isVisible()) return;
  const History* history = selection_->history();
  const bool any = history && !history->steps().empty() && selection_->expert() >= 0;
  for (auto* tile : figures_->findChildren<ValueTile*>()) tile->setVisible(any && !tile->isEmpty());
  const RouterFrame* at = any ? router() : nullptr;
  int room =
      bodyRect().height() - figures_->sizeHint().height() - actions_->isVisibleTo(this) * actions_->sizeHint().height();
  const auto show = [&](QWidget* part, int height, bool has_data) {
    const bool fits = has_data && room >= withType(height, fontMetrics());
    if (fits) room -= withType(height, fontMetrics());
    part->setVisible(fits);
  };
  show(load_, any ? kCurveHeight : 0, true);
  show(bias_, kCurveHeight, any && (!at || !arrayAt(last_bias_)->values.empty()));
  show(costs_, kCurveHeight, any && atCursor(measured_, *selection_) && measured_->by_step.size() > 1);
  show(domains_, kBarsHeight, any && specialisation() && !history->info().domains.empty());
  const auto has_text = [&](TextKind kind) {
    std::int64_t step = selection_->step();
    return history->text_at(kind, step) != nullptr;
  };
  show(tokens_, kTextsHeight, any && std::ranges::any_of(kKinds, has_text));
  show(fair_share_, kCurveHeight, any && !fair_share_->fairBiasText().isEmpty());
}

void ExpertPanel::addTiles() {
  figures_ = new QWidget(this);
  auto* grid = new QGridLayout(figures_);
  grid->setContentsMargins(0, 0, 0, 0);
  grid->setSpacing(0);
  struct Figure {
    QString name;
    std::function<QString()> text;         // empty: nothing to show
    std::function<QStringList()> place{};  // below the text
  };
  const std::vector<Figure> figures = {
      {"Load now", [this] { return loadText(); }},
      {"Tokens of this step", [this] { return tokensText(); }},
      {"Place", [this] { return placeText(); },
       [this] { return hasNoToken() ? QStringList{"after " + lastStepWithTokens()} : QStringList(); }},
      {"Bias", [this] { return figure(last_bias_, false); }, [this] { return stepOf(last_bias_); }},
      {"Bias of the fair share", [this] { return fair_share_->fairBiasText(); }},
      {"Gate mass", [this] { return figure(last_gate_, true); }, [this] { return stepOf(last_gate_); }},
      {"Score mass", [this] { return figure(last_score_, true); }, [this] { return stepOf(last_score_); }},
      {"Rank, node", [this] { return rankText(); }},
      {"Weights", [this] { return weightsText(); }, [this] { return changeTexts(); }},
      {"Loss without it, nats", [this] { return cost() ? lossChangeText(cost()->loss_change) : QString(); }},
      {"Saliency", [this] { return cost() ? formatValue(static_cast<float>(cost()->saliency), 3) : QString(); }},
      {"Most similar expert", [this] { return mostSimilarText(); }},
  };
  for (const Figure& figure : figures) {
    const int i = grid->count();
    auto* tile = new ValueTile(selection_, figure.name, figure.text, figures_);
    if (figure.place) tile->setPlace(figure.place);
    tile->setFocusPolicy(Qt::NoFocus);
    grid->addWidget(tile, i / 3, i % 3, Qt::AlignTop);  // the names of a row stand side by side
  }
  QScrollArea* scroll = scrollOf(figures_);  // a low panel does not show all rows
  figures_->setAutoFillBackground(false);
  scroll->viewport()->setAutoFillBackground(false);
  scroll->setSizeAdjustPolicy(QScrollArea::AdjustToContents);
  scroll->setSizePolicy(QSizePolicy::Preferred, QSizePolicy::Maximum);
  addBody(scroll, 0);
}

void ExpertPanel::addActions() {
  actions_ = new QWidget(this);
  auto* row = new QHBoxLayout(actions_);
  row->setContentsMargins(4, 0, 4, 0);
  kill_ = new QPushButton("Kill", actions_);
  pin_ = new QPushButton("Pin bias", actions_);
  row->addWidget(kill_);
  row->addWidget(pin_);
  row->addStretch(1);
  connect(kill_, &QPushButton::clicked, this, [this] {
    const bool killed = interventionOf && interventionOf(selection_->layer(), selection_->expert()).killed;
    emit killRequested(selection_->layer(), selection_->expert(), !killed);
    refreshActions();
  });
  connect(pin_, &QPushButton::clicked, this, [this] {
    const auto intervention =
        interventionOf ? interventionOf(selection_->layer(), selection_->expert()) : Intervention{};
    const RouterFrame* at = router();
    const std::size_t e = selection_->expert();
    std::optional<double> bias;
    if (!intervention.pinned_bias && at && e < at->expert_bias.size()) bias = at->expert_bias[e];
    if (intervention.pinned_bias || bias) emit pinRequested(selection_->layer(), selection_->expert(), bias);
    refreshActions();
  });
  addBody(actions_, 0);
}

void ExpertPanel::refreshActions() {
  const bool chosen = selection_->expert() >= 0;
  const auto intervention =
      interventionOf && chosen ? interventionOf(selection_->layer(), selection_->expert()) : Intervention{};
  actions_->setVisible(selection_->growing() || intervention.possible);
  kill_->setEnabled(intervention.possible);
  pin_->setEnabled(intervention.possible);
  kill_->setText(intervention.killed ? QString("Revive") : QString("Kill"));
  pin_->setText(intervention.pinned_bias ? QString("Release bias") : QString("Pin bias"));
  QString kill_tip = "Exclude this expert from the router's choice (Ctrl+Z undoes it)";
  if (intervention.killed) kill_tip = "Let the router choose this expert again";
  QString pin_tip = "Hold the bias of this expert at its value at the cursor; the update rule no longer changes it";
  if (const auto bias = intervention.pinned_bias)
    pin_tip = QString("Pinned at %1: let the update rule change the bias again").arg(formatValue(*bias));
  if (!intervention.possible)
    kill_tip = pin_tip = chosen ? QString("Only while a model is in training") : QString("No expert is chosen");
  kill_->setToolTip(kill_tip);
  pin_->setToolTip(pin_tip);
}

const RouterFrame* ExpertPanel::router() const {
  frame_ = selection_->frame();
  return find_router(frame_.get(), selection_->layer());
}

QString ExpertPanel::whyNothing() const {
  const History* history = selection_->history();
  if (!history || history->steps().empty()) return noDataYetNotice(*selection_);
  return QString(selection_->expert() < 0 ? "Choose an expert: click one in any panel, or set its number above" : "");
}

const LastArray::Found* ExpertPanel::arrayAt(LastArray& array) const {
  const bool chosen = router() && selection_->expert() >= 0;
  return chosen ? &array.at(*selection_->history(), selection_->layer(), frame_->step) : nullptr;
}

QString ExpertPanel::figure(LastArray& array, bool share) const {
  const LastArray::Found* found = arrayAt(array);
  if (!found || selection_->expert() >= std::ssize(found->values)) return {};
  const float value = found->values[selection_->expert()];
  return share ? formatPercent(value) : formatValue(value, 3);
}

QStringList ExpertPanel::stepOf(LastArray& array) const {
  const LastArray::Found* found = arrayAt(array);
  if (!found || found->step < 0 || found->step == frame_->step) return {};
  return {QString("%1 %2").arg(selection_->stepWord(), formatCount(found->step))};
}

const std::vector<std::uint32_t>* ExpertPanel::counts() const {
  const RouterFrame* at = router();
  const int expert = selection_->expert();
  return at && expert >= 0 && expert < std::ssize(at->tokens_per_expert) ? &at->tokens_per_expert : nullptr;
}

QString ExpertPanel::loadText() const {
  const auto* counts = this->counts();
  if (!counts) return {};
  return QString("%1 \u00d7 fair share").arg(formatValue(utilisation(*counts, selection_->expert()), 3));
}

// Returns the number of the step's tokens that chose this expert, of all tokens. A token chooses an expert at most
// once.
QString ExpertPanel::tokensText() const {
  const auto* counts = this->counts();
  if (!counts || are_shares(selection_->history()->info(), *router())) return {};
  const double all = std::accumulate(counts->begin(), counts->end(), 0.0);
  const int top_k = std::max(1, selection_->history()->info().top_k);
  return QString("%1 of %2").arg(formatCount((*counts)[selection_->expert()]), formatCount(all / top_k));
}

bool ExpertPanel::hasNoToken() const {
  const auto* counts = this->counts();
  return counts && (*counts)[selection_->expert()] == 0;
}

// Returns the last step up to the cursor at which the expert had tokens: "step 480".
QString ExpertPanel::lastStepWithTokens() const {
  const History& history = *selection_->history();
  StepRange range{history.steps().first, frame_->step};
  while (range.size() > 1) {
    const std::vector<std::int64_t> edges = slice_edges(range, to_int(std::min<std::int64_t>(64, range.size())));
    const auto loads = history.expert_utilisation(selection_->layer(), selection_->expert(), edges);
    const auto last = std::find_if(loads.rbegin(), loads.rend(), [](const PyramidBin& bin) { return bin.max > 0; });
    if (last == loads.rend()) return QString("the beginning");
    const std::size_t bin = loads.rend() - last - 1;
    range = {edges[bin], edges[bin + 1] - 1};
  }
  return selection_->rangeText(range);
}

QString ExpertPanel::placeText() const {
  const auto* counts = this->counts();
  if (!counts) return {};
  const std::uint32_t own_count = (*counts)[selection_->expert()];
  if (own_count == 0) return "no tokens";
  const auto fuller = std::ranges::count_if(*counts, [own_count](std::uint32_t n) { return n > own_count; });
  return QString("%1 of %2").arg(fuller + 1).arg(counts->size());
}

// Returns the virtual rank of the expert. As for the volumes, experts are on ranks in order, E / R on each.
QString ExpertPanel::rankText() const {
  const History* history = selection_->history();
  if (!history || selection_->expert() < 0 || history->info().ranks <= 0) return {};
  const RunInfo& info = history->info();
  const auto rank = static_cast<std::int64_t>(selection_->expert()) * info.ranks / std::max(1, info.n_experts);
  return QString("%1 of %2, node %3").arg(rank).arg(info.ranks).arg(rank / std::max(1, info.ranks_per_node));
}

std::optional<SpecialisationFrame> ExpertPanel::specialisation() const {
  const History* history = selection_->history();
  if (!history || selection_->expert() < 0) return {};
  return history->specialisation_of(selection_->layer(), selection_->step());
}

// Returns the norms of the gradient of the expert's weights and of their change in the last step.
QStringList ExpertPanel::changeTexts() const {
  const auto measured = specialisation();
  const std::size_t e = selection_->expert();
  if (!measured || e >= measured->update_norm_E.size()) return {};
  const QString update = QString("update %1").arg(formatValue(measured->update_norm_E[e], 3));
  if (e >= measured->gradient_norm_E.size()) return {update};
  return {QString("gradient %1, %2").arg(formatValue(measured->gradient_norm_E[e], 3), update), update};
}

QString ExpertPanel::weightsText() const {
  const auto measured = specialisation();
  const std::size_t e = selection_->expert();
  if (!measured || e >= measured->weight_norm_E.size()) return {};
  const QString norm = QString("norm %1").arg(formatValue(measured->weight_norm_E[e]));
  const float sqnr = e < measured->weight_sqnr_E.size() ? measured->weight_sqnr_E[e] : kNoValue;
  if (is_missing(sqnr)) return norm;
  if (run_origin(selection_->history()->info()) == RunOrigin::checkpoint)
    return QString("%1, %2 from A").arg(norm, formatPercent(std::pow(10.0, -static_cast<double>(sqnr) / 20)));
  return QString("%1, %2 dB").arg(norm).arg(static_cast<double>(sqnr), 0, 'f', 1);
}

void ExpertPanel::showExperts(std::shared_ptr<const MeasuredExperts> measured) {
  measured_ = std::move(measured);
  costs_->markDirty();
  hidePartsWithoutData();
  update();
}

const ExpertCost* ExpertPanel::cost() const {
  const auto* measured = atCursor(measured_, *selection_);
  return measured ? measured->second.find(selection_->layer(), selection_->expert()) : nullptr;
}

void ExpertPanel::refillCosts() {
  costs_->setNotice(whyNothing());
  if (!costs_->notice().isEmpty() || !atCursor(measured_, *selection_)) return;
  const auto& active = selection_->histories()[selection_->run()];
  const auto fetch = [measured = measured_, layer = selection_->layer(), expert = selection_->expert()](StepRange range,
                                                                                                        int bins) {
    std::vector<PyramidBin> out(bins);
    for (const auto& [step, scan] : measured->by_step) {
      const ExpertCost* cost = scan.find(layer, expert);
      if (cost && step >= range.first && step <= range.last)
        out[(step - range.first) * bins / range.size()].add(static_cast<float>(cost->loss_change.mean));
    }
    return out;
  };
  costs_->setAtLeastShown(0, 0);
  costs_->setSeries(
      {LineSeries{.history = active, .label = "loss without it", .color = curveColor(*selection_), .fetch = fetch}});
}

void ExpertPanel::showSimilarity(std::shared_ptr<const MeasuredSimilarity> measured) {
  similarity_ = std::move(measured);
  hidePartsWithoutData();
  update();
}

// Names the most similar expert, with the cosine of the outputs of both experts.
QString ExpertPanel::mostSimilarText() const {
  const auto* measured = atCursor(similarity_, *selection_);
  const LayerSimilarity* layer = measured ? measured->second.find(selection_->layer()) : nullptr;
  const int expert = selection_->expert();
  if (!layer || expert < 0 || expert >= layer->experts()) return {};
  const int other = layer->most_similar(expert);
  return other < 0 ? QString() : QString("%1: %2").arg(other).arg(layer->cosine(expert, other).mean, 0, 'f', 2);
}

void ExpertPanel::refillLoad() {
  if (load_->showsNotice(whyNothing())) return;
  const auto& active = selection_->histories()[selection_->run()];
  const int layer = selection_->layer(), expert = selection_->expert();
  load_->setReferences({{1, "fair"}});
  load_->setAtLeastShown(0, 1.2);
  load_->setSeries({LineSeries{.history = active,
                               .label = "load",
                               .color = curveColor(*selection_),
                               .fetch = [active, layer, expert](StepRange range, int bins) {
                                 return active->expert_utilisation(layer, expert, range, bins);
                               }}});
}

void ExpertPanel::refillBias() {
  if (bias_->showsNotice(whyNothing().isEmpty() ? QString() : QString(QChar(u' ')))) return;
  const auto& active = selection_->histories()[selection_->run()];
  const int layer = selection_->layer(), expert = selection_->expert();
  bias_->setAtLeastShown(0, 0);
  bias_->setSeries({LineSeries{.history = active,
                               .label = "bias",
                               .color = curveColor(*selection_),
                               .fetch = [active, layer, expert](StepRange range, int bins) {
                                 const auto all = active->expert_bias(layer, range, bins);
                                 std::vector<PyramidBin> out(bins);
                                 const std::size_t experts = all.size() / out.size();
                                 for (std::size_t b = 0; b < out.size(); ++b) {
                                   const std::size_t at = b * experts + expert;
                                   if (static_cast<std::size_t>(expert) < experts && !std::isnan(all[at]))
                                     out[b].add(all[at]);
                                 }
                                 return out;
                               }}});
}

void ExpertPanel::refillDomains() {
  if (domains_->showsNotice(whyNothing().isEmpty() ? QString() : QString(QChar(u' ')))) return;
  const History* history = selection_->history();
  const auto measured = specialisation();
  const auto& names = history->info().domains;
  if (!measured || names.empty()) return domains_->setNotice(notInLogNotice(history->info(), "domains"));
  const auto found = domains_of_expert(*measured, selection_->expert());
  std::vector<BandBars::Row> rows;
  for (const TokensOfExpert& domain : found) {
    if (rows.size() == kMaxDomains || domain.kind >= names.size()) break;
    rows.push_back({QString::fromStdString(names[domain.kind]),
                    {{domain.share, rows.empty() ? BandBars::kStrong : BandBars::kPlain}},
                    kNoValue,
                    kNoValue,
                    QString("%1\t%2 \u00d7 its share").arg(formatPercent(domain.share), formatValue(domain.lift, 2))});
  }
  domains_->setCaption("most preferred domains, share of its copies");
  domains_->setRows(std::move(rows));
}

void ExpertPanel::refillTokens() {
  if (tokens_->showsNotice(whyNothing().isEmpty() ? QString() : QString(QChar(u' ')))) return;
  const History* history = selection_->history();
  std::vector<std::shared_ptr<const TokenFrame>> frames;
  std::vector<const TokenFrame*> texts;
  for (const TextKind kind : kKinds) {
    std::int64_t step = selection_->step();
    if (auto text = history->text_at(kind, step)) {
      texts.push_back(text.get());
      frames.push_back(std::move(text));
    }
  }
  if (texts.empty()) return tokens_->setNotice(notInLogNotice(history->info(), "routed texts"));
  const std::size_t count = std::max(1, tokens_->linesThatFit());
  std::vector<TokenContexts::Line> lines;
  for (const FavouriteToken& token : favourite_tokens(texts, selection_->layer(), selection_->expert(), count)) {
    const std::string_view text = token.text->text;
    const std::size_t from = token.position > kContextBytes ? token.position - kContextBytes : 0;
    lines.push_back({shownBytes(text.substr(from, token.position - from)),
                     shownBytes(text.substr(token.position, token.end - token.position)),
                     shownBytes(text.substr(token.end, kContextBytes)), token.mix_share});
  }
  tokens_->setTitle(lines.empty() ? QString("No token of the probe, the sample or the batch passage chose this expert")
                                  : QString("Favourite tokens in probe, sample and batch"));
  tokens_->setLines(std::move(lines));
}

QString ExpertPanel::status() const {
  const auto frame = selection_->frame();
  return frame ? timeStatus(frame->step, true) : QString();
}

// Load and bias at each step of the range.
ValueTable ExpertPanel::table() const {
  ValueTable table({{"step"}, {"layer"}, {"expert"}, {"load", kUtilisationUnit, 3}, {"bias"}});
  const History* history = selection_->history();
  const int layer = selection_->layer(), expert = selection_->expert();
  const std::vector<std::int64_t> steps =
      history && expert >= 0 ? history->steps_in(selection_->range()) : std::vector<std::int64_t>();
  if (steps.empty()) return table;
  const auto load = history->expert_utilisation(layer, expert, edges_of(steps));
  const auto bias = history->expert_bias(layer, edges_of(steps));
  const std::size_t experts = bias.size() / steps.size();
  for (std::size_t i = 0; i < load.size(); ++i) {
    const std::size_t e = expert;
    const float bias_now = e < experts ? bias[i * experts + e] : NAN;
    if (load[i].finite > 0 || !std::isnan(bias_now)) table.add(steps[i], layer, expert, load[i], unless_nan(bias_now));
  }
  return table;
}

}  // namespace moescope
