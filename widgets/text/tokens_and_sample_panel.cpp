#include "widgets/text/tokens_and_sample_panel.h"

#include <QMouseEvent>
#include <QPainter>
#include <QPushButton>
#include <QSplitter>
#include <algorithm>
#include <cmath>
#include <map>
#include <ranges>

#include "core/files/assets.h"
#include "core/files/text/text_escape.h"
#include "core/frame/expert_map.h"
#include "core/frame/specialisation.h"
#include "widgets/look/counted_text.h"
#include "widgets/look/fitted_text.h"
#include "widgets/look/layouts.h"
#include "widgets/panel/byte_text.h"
#include "widgets/plots/color_scale.h"
#include "widgets/selection/compared_runs.h"

namespace moescope {
namespace {

constexpr std::size_t kMaxProbeBytes = 1024;  // limit of telemetry.probe in the config
constexpr int kShownTexts = 20;               // entries of the list of texts without scrolling
constexpr int kFirstToken = 8;                // token whose path is shown until one is selected

const QString kOwnText = QStringLiteral("own text");
const QString kWriteText = QStringLiteral("own text...");       // opens the editor of the probe text
const QString kFirstText = QStringLiteral("first probe text");  // brings it back after an own text

// Returns the text for editing: line feeds as such, other special bytes as escapes.
QString editableText(const std::string& bytes) {
  QStringList lines;
  for (const auto& line : std::views::split(bytes, '\n'))
    lines << QString::fromStdString(escape_bytes(std::string_view(line.begin(), line.end())));
  return lines.join(QLatin1Char('\n'));
}

struct TextLoss {
  double sum = 0;
  int tokens = 0;  // tokens with a loss
  QString mean() const { return QString("%1 nats/token").arg(formatValue(sum / tokens, 3)); }
};

TextLoss lossOf(const TokenFrame& text) {
  TextLoss loss;
  for (std::size_t t = text.prompt; t < text.loss_T.size(); ++t) {
    if (is_missing(text.loss_T[t])) continue;
    loss.sum += text.loss_T[t];
    ++loss.tokens;
  }
  return loss;
}

}  // namespace

void TokenPathPlot::setPath(std::shared_ptr<const TokenFrame> text, int position,
                            std::vector<TokenTextView::Row> columns) {
  text_ = std::move(text);
  position_ = position;
  columns_ = std::move(columns);
}

std::vector<TokenPathPlot::Piece> TokenPathPlot::pieces() const {
  std::vector<Piece> pieces;
  const QRectF room = plotRect();
  const double width = room.width() / columns_.size();
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    const TokenLayer& layer = *columns_[i].layer;
    const std::vector<float> shares = mix_shares(layer, position_);
    const double gap = std::min(2.0, width * 0.1);
    QRectF free_box(room.left() + i * width, room.top(), width - gap, room.height());
    const bool side_by_side = free_box.width() > free_box.height();
    const QSizeF all = free_box.size();
    for (std::size_t k = 0; k < shares.size(); ++k) {
      const std::size_t slot = position_ * shares.size() + k;
      const double share = is_missing(shares[k]) ? 0 : static_cast<double>(shares[k]);
      QRectF box = free_box;
      if (side_by_side) {
        box.setWidth(share * all.width());
        free_box.setLeft(box.right());
      } else {
        box.setTop(free_box.bottom() - share * all.height());
        free_box.setBottom(box.top());
      }
      pieces.push_back({box, layer.layer, layer.experts_TK[slot], shares[k]});
    }
  }
  return pieces;
}

QStringList TokenPathPlot::titles() const {
  const QString token =
      QString("position %1, ").arg(position_) + contextOf(*text_, span_at(token_spans(*text_), position_), 9);
  QStringList by_bias;  // layers whose first choice has not the largest share
  for (const TokenTextView::Row& column : columns_)
    if (const auto shares = mix_shares(*column.layer, position_);
        !shares.empty() && std::ranges::max(shares) > shares.front())
      by_bias << QString("L%1").arg(column.layer->layer);
  const QString all = token + QString(": shares of its experts in each layer"),
                reason = "; the bias decides the choice in " + by_bias.join(", ");
  const QStringList forms{all + reason, token + ": shares" + reason, all, token + QString(": shares of its experts"),
                          token};
  return by_bias.isEmpty() ? forms.mid(2) : forms;
}

void TokenPathPlot::paintData(QPainter& painter) {
  pieces_.clear();
  if (!text_ || position_ < 0 || columns_.empty()) return;
  pieces_ = pieces();
  const QFontMetrics metrics(painter.font());
  painter.setPen(palette().text().color());
  painter.drawText(QRect(4, 0, width() - 8, metrics.height() + 2), Qt::AlignVCenter,
                   fittingText(titles(), metrics, width() - 8));
  const QRect room = plotRect();
  int last_layer = -1;
  double last_label = -100;
  for (const Piece& piece : pieces_) {
    const auto column =
        std::ranges::find_if(columns_, [&](const TokenTextView::Row& c) { return c.layer->layer == piece.layer; });
    const QColor color = column->colors.colorOf(piece.expert);
    painter.fillRect(piece.box.adjusted(0, 0, 0, -1), color);
    const QString wide = QString("%1  %2 %").arg(piece.expert).arg(100 * static_cast<double>(piece.share), 0, 'f', 0);
    const QString narrow = QString::number(piece.expert);
    const auto fits = [&](const QString& text) { return metrics.horizontalAdvance(text) + 2 < piece.box.width(); };
    if (piece.box.height() >= metrics.height() - 3 && fits(narrow)) {
      painter.setPen(textOn(color.rgb()));
      painter.drawText(piece.box, Qt::AlignCenter, fits(wide) ? wide : narrow);
    }
    if (piece.layer != last_layer &&
        piece.box.left() > last_label + metrics.horizontalAdvance(QStringLiteral("L60 "))) {
      last_label = piece.box.left();
      painter.setPen(mutedText(palette()));
      painter.drawText(QRectF(piece.box.left(), room.bottom() + 1, withType(34), metrics.height()),
                       Qt::AlignLeft | Qt::AlignVCenter, QString("L%1").arg(piece.layer));
    }
    last_layer = piece.layer;
  }
}

const TokenPathPlot::Piece* TokenPathPlot::pieceAt(QPoint position) const {
  const auto found = std::ranges::find_if(pieces_, [&](const Piece& piece) { return piece.box.contains(position); });
  return found == pieces_.end() ? nullptr : &*found;
}

void TokenPathPlot::paintOverlay(QPainter& painter) {
  painter.setPen(QPen(cursorColor(dark()), 2));
  for (const Piece& piece : pieces_)
    if (piece.layer == layer_ && piece.expert == expert_) painter.drawRect(piece.box.adjusted(0, 0, -1, -1));
  PlotFrame::paintOverlay(painter);
}

QStringList TokenPathPlot::readoutAt(QPoint position) const {
  const Piece* piece = pieceAt(position);
  return piece ? describe(position_, piece->layer) : QStringList();
}

void TokenPathPlot::mousePressEvent(QMouseEvent* event) {
  if (const Piece* piece = pieceAt(event->pos())) emit expertChosen(piece->layer, piece->expert);
}

TokensAndSamplePanel::TokensAndSamplePanel(Selection* selection, Shows shows, QWidget* parent)
    : Panel(selection, shows == Shows::sample ? QString("Sample") : QString("Tokens"), Provenance::measured_here,
            parent),
      shows_(shows) {
  showAnswers([this] { return view_->highlightLegend(); });
  view_ = new TokenTextView(this);
  view_->refill = [this] { refill(); };
  view_->describe = [this](int position, int layer) { return describe(position, layer); };
  path_ = new TokenPathPlot(this);
  path_->setAccessibleName("Path of one token");
  path_->refill = [this] { refillPath(); };
  path_->describe = view_->describe;
  followSelection(view_);
  followSelection(path_);
  connect(view_, &TokenTextView::tokenChosen, this, [this](int position, int layer) {
    token_ = position;
    token_text_ = text_ ? text_->text : "";
    const int shown_layer = layer >= 0 ? layer : selection_->layer();
    const TokenLayer* routed = text_ ? find_layer(*text_, shown_layer) : nullptr;
    if (routed) choose(shown_layer, routed->experts_TK[position * static_cast<std::size_t>(routed->top_k)]);
    view_->markDirty();
    path_->markDirty();
  });
  connect(view_, &TokenTextView::expertChosen, this, &TokensAndSamplePanel::choose);
  connect(path_, &TokenPathPlot::expertChosen, this, &TokensAndSamplePanel::choose);

  auto* splitter = new QSplitter(Qt::Vertical, this);
  splitter->setChildrenCollapsible(true);
  stack_ = new QStackedWidget(splitter);
  stack_->addWidget(view_);
  splitter->addWidget(stack_);
  splitter->addWidget(path_);
  splitter->setStretchFactor(0, 3);
  splitter->setStretchFactor(1, 1);
  if (shows_ == Shows::probe_and_data) stack_->addWidget(makeEditor());
  addControls();
  addBody(splitter);
  giveFocusTo(view_);
  view_->setAccessibleName(title());
  keepState("all_layers", all_layers_);
  keepState("color", color_);
  keepState(
      "text", [this] { return wantedDomain(); }, [this](const QVariant& state) { wished_ = state.toString(); });
}

void TokensAndSamplePanel::addControls() {
  if (shows_ == Shows::probe_and_data) {
    what_ = makeChoice({"probe text"}, "Displayed text",
                       "The probe text, or the newest passage of the data that was trained on, by domain. Own text: "
                       "write another probe text, which is routed immediately");
    connect(what_, &QComboBox::currentIndexChanged, this, [this] {
      const QString chosen = what_->currentText();
      if (chosen == kWriteText || chosen == kFirstText) {
        what_->setCurrentIndex(0);
        if (chosen == kWriteText) return beginEditing();
        emit probeWanted(first_probe_);
      }
      stack_->setCurrentWidget(view_);
      view_->markDirty();
      path_->markDirty();
    });
    what_->setMaxVisibleItems(kShownTexts);
    addControl(what_);
  }
  addControl(new LayerCombo(selection_, this));
  all_layers_ = makeToggle("all layers",
                           "Shows every layer as a line below the letters, instead of one layer as their background");
  all_layers_->setAccessibleName("All layers");
  connect(all_layers_, &QToolButton::toggled, view_, &PlotFrame::markDirty);
  addControl(all_layers_);
  color_ = makeChoice(
      {"colour by id", "colour by co-activation"}, "Colours of experts",
      "by id: an expert keeps its colour over time\nby co-activation: experts chosen together have similar colours");
  connect(color_, &QComboBox::currentIndexChanged, this, [this] {
    view_->markDirty();
    path_->markDirty();
  });
  addControl(color_);
}

QWidget* TokensAndSamplePanel::makeEditor() {
  auto* page = new QWidget(this);
  auto* column = plainColumn(page);
  editor_ = new QPlainTextEdit(page);
  editor_->setAccessibleName("Probe text");
  editor_->setFont(QFont(QStringLiteral("monospace")));
  column->addWidget(editor_);
  auto* row = new QHBoxLayout;
  problem_ = new QLabel(QString("At most %1").arg(countedText(kMaxProbeBytes, "byte")), page);
  problem_->setToolTip("A byte that has no key: \\x01. A backslash: \\\\");
  row->addWidget(problem_, 1);
  auto* cancel = new QPushButton("Cancel", page);
  connect(cancel, &QPushButton::clicked, this, [this] { stack_->setCurrentWidget(view_); });
  row->addWidget(cancel);
  auto* apply = new QPushButton("Use this text", page);
  apply->setShortcut(Qt::CTRL | Qt::Key_Return);
  apply->setToolTip("Ctrl+Return");
  connect(apply, &QPushButton::clicked, this, &TokensAndSamplePanel::applyEdit);
  row->addWidget(apply);
  column->addLayout(row);
  return page;
}

void TokensAndSamplePanel::setEditable(bool editable) {
  editable_ = editable;
  if (!editable) stack_->setCurrentWidget(view_);
  fillTexts();
}

void TokensAndSamplePanel::beginEditing() {
  findText();
  editor_->setPlainText(text_ ? editableText(text_->text) : QString());
  editor_->selectAll();  // typing replaces the text
  stack_->setCurrentIndex(1);
  editor_->setFocus();
}

void TokensAndSamplePanel::applyEdit() {
  QString escaped = editor_->toPlainText();
  escaped.replace(QLatin1Char('\n'), QStringLiteral("\\n")).replace(QLatin1Char('\t'), QStringLiteral("\\t"));
  const auto bytes = unescape_bytes(escaped.toStdString());
  if (!bytes || bytes->size() > kMaxProbeBytes) {
    problem_->setText(
        bytes ? QString("%1, at most %2 can be routed").arg(countedText(bytes->size(), "byte")).arg(kMaxProbeBytes)
              : QString("After a backslash: n, t, x41 or another backslash"));
    return;
  }
  what_->setCurrentIndex(0);
  stack_->setCurrentWidget(view_);
  emit probeWanted(escaped);
  update();
}

void TokensAndSamplePanel::choose(int layer, int expert) {
  const bool is_chosen = layer == selection_->layer() && expert == selection_->expert();
  selection_->setLayer(layer);
  selection_->setExpert(is_chosen ? -1 : expert);
}

// Fills the choice of texts with the probe and the domains of the open run.
void TokensAndSamplePanel::fillTexts() {
  if (!what_ || !selection_->history()) return;
  const History* history = selection_->history();
  const RunInfo& info = history->info();
  // A checkpoint that was run on texts has passages only.
  const bool probe = !info.config_toml.empty() || history->text_steps(TextKind::batch).empty() ||
                     !history->text_steps(TextKind::probe).empty();
  QStringList names;
  std::int64_t step = selection_->step(), first_step = history->steps().first;
  const auto shown_probe = probeText(*history, step), first_probe = history->text_at(TextKind::probe, first_step);
  const bool is_own = probe && shown_probe && first_probe && shown_probe->text != first_probe->text;
  if (is_own) first_probe_ = QString::fromStdString(escape_bytes(first_probe->text));
  if (probe) names << (is_own ? kOwnText : QString("probe text"));
  if (is_own && editable_) names << kFirstText;
  for (const std::string& domain : info.domains) names << QString::fromStdString(domain);
  if (probe && editable_) names << kWriteText;
  QStringList shown;
  for (int i = 0; i < what_->count(); ++i) shown << what_->itemText(i);
  if (names == shown) return;
  const QString current = wished_.isEmpty() ? what_->currentText() : wished_;
  const QSignalBlocker quiet(what_);
  what_->clear();
  for (qsizetype i = 0; i < names.size(); ++i) what_->addItem(names[i], probe && i == 0 ? QString() : names[i]);
  what_->setCurrentIndex(std::max(0, what_->findText(current)));
  wished_.clear();
}

void TokensAndSamplePanel::findText() {
  text_.reset();
  const History* history = selection_->history();
  if (!history) return;
  step_ = selection_->step();
  if (shows_ == Shows::sample) {
    text_ = history->text_at(TextKind::sample, step_);
    return;
  }
  const std::string domain = wantedDomain().toStdString();
  text_ = domain.empty() ? probeText(*history, step_) : history->text_at(TextKind::batch, step_);
  while (text_ && !domain.empty() && text_->domain != domain) {
    --step_;
    text_ = history->text_at(TextKind::batch, step_);
  }
}

ExpertColors TokensAndSamplePanel::colorsOf(const TokenLayer& layer) {
  const int experts = selection_->history()->info().n_experts;
  const bool dark = isDark(palette());
  if (color_->currentIndex() == 1) {
    const auto special = selection_->history()->specialisation_of(layer.layer, step_);
    if (special && !special->together_EE.empty())
      return ExpertColors::inOrder(coactivation_order(special->together_EE, to_int(special->n_experts())), dark);
  }
  return ExpertColors::byId(experts, dark);
}

void TokensAndSamplePanel::refill() {
  const History* history = selection_->history();
  if (!hasSteps(view_)) return;
  fillTexts();
  findText();
  if (!text_) {
    view_->setText(nullptr, {});
    if (history->info().config_toml.empty())
      return view_->setNotice(notInLogNotice(history->info(), shows_ == Shows::sample
                                                                  ? QString("text that the model wrote")
                                                                  : QString("texts with their routing")));
    QString notice = "No probe text yet. telemetry.probe sets it, telemetry.texts_every how often it is routed.";
    if (!wantedDomain().isEmpty()) notice = QString("No passage of %1 yet").arg(wantedDomain());
    if (shows_ == Shows::sample) notice = "No sample yet. telemetry.sample_every sets how often the model writes one.";
    return view_->setNotice(notice);
  }
  view_->setNotice({});
  arrays_ = history->frame_at(step_);
  std::vector<TokenTextView::Row> rows;
  for (const TokenLayer& layer : text_->layers)
    if (all_layers_->isChecked() || layer.layer == selection_->layer()) rows.push_back({&layer, colorsOf(layer)});
  if (rows.empty() && !text_->layers.empty()) rows.push_back({&text_->layers.front(), colorsOf(text_->layers.front())});
  const bool same_text = token_text_ == text_->text;
  if (!same_text) token_ = std::min<int>(kFirstToken, to_int(text_->text.size()) - 1);
  token_text_ = text_->text;
  view_->setText(text_, std::move(rows));
  view_->setHighlight(selection_->layer(), selection_->expert());
  view_->setCurrent(token_);
}

void TokensAndSamplePanel::refillPath() {
  findText();
  path_->setNotice(text_ ? QString() : QString(QLatin1Char(' ')));
  if (!text_) return;
  if (token_ < 0 || token_ >= to_int(text_->text.size()))
    token_ = std::min<int>(kFirstToken, to_int(text_->text.size()) - 1);
  std::vector<TokenTextView::Row> columns;
  for (const TokenLayer& layer : text_->layers) columns.push_back({&layer, colorsOf(layer)});
  path_->setPath(text_, token_, std::move(columns));
  path_->setCurrent(selection_->layer(), selection_->expert());
}

QStringList TokensAndSamplePanel::describe(int position, int layer) const {
  if (!text_) return {};
  const TokenSpan token = span_at(token_spans(*text_), position);
  const std::size_t t = token.begin;
  const QString what = tokenName(std::string_view(text_->text).substr(t, token.size())) + QStringLiteral("   ") +
                       contextOf(*text_, token, 8);
  QStringList lines{what};
  if (!is_missing(text_->loss_T[t]))
    lines << QString("loss %1 nats: the model predicted it with %2")
                 .arg(formatValue(text_->loss_T[t], 3), formatPercent(std::exp(-text_->loss_T[t])));
  const TokenLayer* routed = find_layer(*text_, layer >= 0 ? layer : selection_->layer());
  if (!routed) return lines;
  const float margin = routed->margin_T[t];
  lines << QString("layer %1%2")
               .arg(routed->layer)
               .arg(is_missing(margin) ? QString() : QString(", margin of its choice %1").arg(formatValue(margin, 3)));
  const bool has_step = arrays_ && arrays_->step == step_;
  const RouterFrame* router = has_step ? find_router(arrays_.get(), routed->layer) : nullptr;
  const std::vector<float> shares = mix_shares(*routed, t);
  for (std::size_t k = 0; k < shares.size(); ++k) {
    const std::size_t slot = t * shares.size() + k;
    const int expert = routed->experts_TK[slot];
    QString line = QString("expert %1: %2 of the mixing weights, score %3")
                       .arg(expert)
                       .arg(formatPercent(shares[k]), formatValue(routed->scores_TK[slot], 3));
    if (router && expert < std::ssize(router->expert_bias))
      line += QString(", bias %1").arg(formatValue(router->expert_bias[expert], 2));
    lines << line;
  }
  return lines;
}

QString TokensAndSamplePanel::tokensOfText() const {
  if (shows_ == Shows::sample) return QString("tokens");
  if (!wantedDomain().isEmpty()) return QString("passage's tokens");
  return what_->currentText() == kOwnText ? QString("tokens of the own text") : QString("probe's tokens");
}

// The tokens of the chosen expert, which the text shows in its colours.
Panel::Answer TokensAndSamplePanel::answerOfExpert(const TokenLayer& routed) const {
  const std::vector<TokenSpan> tokens = token_spans(*text_);
  int first = 0, further = 0;
  for (const TokenSpan& token : tokens) {
    const auto* experts = routed.experts_TK.data() + token.begin * routed.top_k;
    const auto* place = std::find(experts, experts + routed.top_k, static_cast<std::uint16_t>(selection_->expert()));
    (place == experts ? first : further) += place != experts + routed.top_k;
  }
  const auto share = [&](int count) { return formatPercent(count / static_cast<double>(tokens.size())); };
  const auto sentence = [&](const char* form) {
    return QString(form).arg(selection_->expert()).arg(share(first), tokensOfText());
  };
  const QString text = sentence("Expert %1 is the first choice of %2 of the %3"),
                in_short = sentence("Expert %1 first: %2 of the %3");
  return {"Which tokens does this expert get?",
          {text + (routed.top_k > 1 ? QString(", a further choice of %1").arg(share(further)) : QString()), text,
           in_short}};
}

Panel::Answer TokensAndSamplePanel::answer() const {
  if (!text_ || !view_->notice().isEmpty()) return {};
  const TextLoss loss = lossOf(*text_);
  if (shows_ == Shows::sample && loss.tokens > 0) {
    const QString written = QString("Loss of the %1: %2").arg(countedText(loss.tokens, "written token"), loss.mean());
    return {step_ == 0 ? "What does the untrained model write?" : "What does the model write?",
            {written + QString("; the prompt is underlined"),
             QString("Loss of the written text: %1; prompt underlined").arg(loss.mean()),
             QString("Loss of the written text: %1").arg(loss.mean()), QString("Written text: %1").arg(loss.mean())}};
  }
  const TokenLayer* routed = find_layer(*text_, selection_->layer());
  if (!routed || routed->experts_TK.empty()) return {};
  if (const QStringList forced = forcedAnswer(*selection_, step_); !forced.isEmpty())
    return {"Which expert gets which tokens?", forced};
  if (selection_->expert() >= 0 && routed->layer == selection_->layer()) return answerOfExpert(*routed);
  std::map<int, int> firsts;  // number of tokens by their first choice
  const std::vector<TokenSpan> tokens = token_spans(*text_);
  for (const TokenSpan& token : tokens) ++firsts[routed->experts_TK[token.begin * routed->top_k]];
  const auto commonest = std::ranges::max_element(firsts, {}, [](const auto& entry) { return entry.second; });
  const double share = commonest->second / static_cast<double>(tokens.size());
  QString other_text;
  if (firsts.size() == 2)
    other_text = QString(", expert %1 of the rest")
                     .arg(commonest == firsts.begin() ? firsts.rbegin()->first : firsts.begin()->first);
  else if (firsts.size() > 2)
    other_text = QString(", %1 experts share the rest").arg(firsts.size() - 1);
  return {"Which expert gets which tokens?",
          {QString("Expert %1 is the first choice of %2 of the %3")
                   .arg(commonest->first)
                   .arg(formatPercent(share), tokensOfText()) +
               other_text,
           QString("Expert %1 first: %2 of the %3").arg(commonest->first).arg(formatPercent(share), tokensOfText())}};
}

// Known for a run in training whose settings were not changed during the training.
QString TokensAndSamplePanel::nextSample() const {
  const History* run = selection_->history();
  const auto changes_it = [](const Marker& marker) { return marker.key == "telemetry.sample_every"; };
  if (shows_ != Shows::sample || !selection_->growing() || run->info().config_toml.empty() ||
      std::ranges::any_of(run->markers(), changes_it))
    return {};
  const std::int64_t rhythm = run->settings_at_start()->value(&TelemetryConfig::sample_every).value_or(0);
  const std::int64_t next = rhythm > 0 ? (step_ / rhythm + 1) * rhythm : 0;
  return next > run->steps().last ? QString(", next at step %1").arg(formatCount(next)) : QString();
}

QString TokensAndSamplePanel::status() const {
  if (!text_) return {};
  const QString time = timeStatus(step_, false);
  const TextLoss loss = lossOf(*text_);
  if (shows_ == Shows::sample) return earlierText(*selection_, text_.get()) + time + nextSample();
  if (loss.tokens == 0) return time;
  const QString name = wantedDomain().isEmpty() ? QString("loss of this text") : QString("loss of this passage");
  return QString("%1, %2 %3, %4").arg(time, name, loss.mean(), countedText(token_spans(*text_).size(), "token"));
}

ValueTable TokensAndSamplePanel::table() const {
  ValueTable table({"step", "position", "byte", "loss [nats]", "layer", "margin", "place", "expert", "score",
                    "share of the mix [share]"});
  if (!text_) return table;
  for (const TokenLayer& layer : text_->layers)
    for (std::size_t t = 0; t < text_->text.size(); ++t) {
      const std::vector<float> shares = mix_shares(layer, t);
      for (std::size_t k = 0; k < shares.size(); ++k) {
        const std::size_t slot = t * shares.size() + k;
        table.add(step_, t, static_cast<std::uint8_t>(text_->text[t]), text_->loss_T[t], layer.layer, layer.margin_T[t],
                  k, layer.experts_TK[slot], layer.scores_TK[slot], shares[k]);
      }
    }
  return table;
}

QString TokensAndSamplePanel::explain() const {
  const char* what = shows_ == Shows::sample ? "panels/sample.html" : "panels/tokens.html";
  return explanation({QString::fromUtf8(asset(what))});
}

}  // namespace moescope
