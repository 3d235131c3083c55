#include "widgets/text/token_text_view.h"

#include <QKeyEvent>
#include <QMouseEvent>
#include <QPainter>
#include <QWheelEvent>
#include <algorithm>
#include <array>
#include <cmath>
#include <set>

#include "core/files/text/text_escape.h"
#include "core/numerics/index.h"
#include "widgets/look/tokens.h"
#include "widgets/panel/byte_text.h"

namespace moescope {

namespace {

// The colour at a position 0..1 on the cycle.
QColor onCycle(double position) {
  const auto& anchors = colors(false).experts;
  const double at = (position - std::floor(position)) * anchors.size();
  const auto index = static_cast<std::size_t>(at) % anchors.size();
  const QColor a(anchors[index]), b(anchors[(index + 1) % anchors.size()]);
  const double t = at - std::floor(at);
  const auto mix = [t](int x, int y) { return to_int(std::lround(x + t * (y - x))); };
  return {mix(a.red(), b.red()), mix(a.green(), b.green()), mix(a.blue(), b.blue())};
}

QRgb shade(double position, int step, bool dark) {
  const QColor color = onCycle(position);
  constexpr std::array<int, 3> kLighter = {100, 128, 78};
  const int factor = kLighter[step % 3] + (dark ? 0 : 10);
  return color.lighter(factor).rgb();
}

}  // namespace

std::shared_ptr<const TokenFrame> probeText(const History& run, std::int64_t& step) {
  const auto edited = run.edited_probe_at(step);
  return edited ? edited : run.text_at(TextKind::probe, step);
}

QString earlierText(const Selection& selection, const TokenFrame* text) {
  std::int64_t step = selection.step();
  const auto probe = probeText(*selection.history(), step);
  const bool is_of_it =
      !probe || !text || probe->text.starts_with(text->prompt > 0 ? text->text.substr(0, text->prompt) : text->text);
  return is_of_it ? QString() : QString("of the earlier text, ");
}

ExpertColors ExpertColors::byId(int n_experts, bool dark) {
  // The anchors, in steps of three on their cycle, then the further colours.
  const auto& anchors = moescope::colors(dark).experts;
  ExpertColors colors;
  for (std::size_t e = 0; e < static_cast<std::size_t>(n_experts); ++e) {
    const std::size_t place = e % (anchors.size() + kFurtherExperts.size());
    const bool is_anchor = place < anchors.size();
    colors.colors_.push_back(is_anchor ? anchors[place * 3 % anchors.size()] : kFurtherExperts[place - anchors.size()]);
  }
  return colors;
}

ExpertColors ExpertColors::inOrder(const std::vector<int>& order, bool dark) {
  ExpertColors colors;
  colors.colors_.resize(order.size());
  for (std::size_t place = 0; place < order.size(); ++place)
    colors.colors_[order[place]] = shade(place / static_cast<double>(order.size()), to_int(place), dark);
  return colors;
}

QColor ExpertColors::colorOf(int expert) const {
  const std::size_t index = expert;
  return index < colors_.size() ? QColor(colors_[index]) : QColor(colors(false).plain_bar);
}

namespace {

// Font scales of the letters: of several layers, and from the largest to the usual one of one layer.
constexpr double kSmallLetters = 0.95, kUsualLetters = 1.1, kLargestLetters = 2.6, kLetterStep = 0.1;
constexpr int kPartGap = 4;                          // letters between lines that are side by side
constexpr int kLegendHeight = 20, kLayerLabel = 42;  // pixels at the usual font size

QColor mixedColor(const QColor& a, const QColor& b, double t) {
  return QColor::fromRgbF(static_cast<float>(a.redF() + t * (b.redF() - a.redF())),
                          static_cast<float>(a.greenF() + t * (b.greenF() - a.greenF())),
                          static_cast<float>(a.blueF() + t * (b.blueF() - a.blueF())));
}

std::string_view bytesOfToken(const TokenFrame& text, TokenSpan token) {
  return std::string_view(text.text).substr(token.begin, token.size());
}

// Returns the number of bytes that share a cell: all bytes of a character if they belong to one token, otherwise 1.
std::size_t characterBytes(const TokenFrame& text, TokenSpan token, std::size_t byte) {
  return longCharacter(bytesOfToken(text, token), byte - token.begin).isEmpty() ? 1 : utf8_bytes(text.text, byte);
}

}  // namespace

void TokenTextView::setText(std::shared_ptr<const TokenFrame> text, std::vector<Row> rows) {
  const bool other = !text_ || !text || text_->text != text->text;
  text_ = std::move(text);
  rows_ = std::move(rows);
  tokens_ = text_ ? token_spans(*text_) : std::vector<TokenSpan>();
  if (other) first_line_ = 0;
  if (other || !text_) current_ = -1;
  layOut();
}

// The letters of one layer are as large as the room allows, up to kLargestLetters.
void TokenTextView::layOut() {
  places_.clear();
  if (!text_) return;
  for (size_ = manyRows() ? kSmallLetters : kLargestLetters;; size_ -= kLetterStep) {
    placeLetters();
    if (!manyRows() && lines_ > visible_lines_) foldLines();
    if (manyRows() || lines_ <= visible_lines_ || size_ < kUsualLetters + kLetterStep / 2) break;
  }
  first_line_ = std::clamp(first_line_, 0, std::max(0, lines_ - visible_lines_));
}

// Places one layer as text, in which a line feed ends a line, and several layers as a table whose lines are as long as
// they fit.
void TokenTextView::placeLetters() {
  places_.clear();
  const QFontMetrics metrics(letters());
  letter_ = {metrics.horizontalAdvance(QLatin1Char('m')) + 2, metrics.height() + 1};
  margin_ = manyRows() ? withType(kLayerLabel) : 0;
  const QRect room = plotRect();
  const int columns = std::max(8, (room.width() - margin_) / letter_.width());
  int line = 0, column = 0;
  for (const TokenSpan& token : tokens_)
    for (std::size_t byte = token.begin; byte < token.end;) {
      const std::size_t bytes = characterBytes(*text_, token, byte);
      places_.insert(places_.end(), bytes, {line, column});
      if (++column == columns || (text_->text[byte] == '\n' && !manyRows())) {
        ++line;
        column = 0;
      }
      byte += bytes;
    }
  lines_ = line + (column > 0 ? 1 : 0);
  if (manyRows()) {
    const int rows = to_int(rows_.size());
    const int fitting = (room.height() / std::max(1, lines_) - letter_.height() - gap_) / rows;
    row_height_ = std::clamp(fitting, 3, 12);
  }
  visible_lines_ = std::max(1, room.height() / std::max(1, lineHeight()));
}

// Puts short lines side by side in as few columns as the height needs, if all of them fit.
void TokenTextView::foldLines() {
  int widest = 0;
  for (const Place& place : places_) widest = std::max(widest, place.column + 1);
  const int parts = (lines_ + visible_lines_ - 1) / visible_lines_, part_width = widest + kPartGap;
  if ((parts * part_width - kPartGap) * letter_.width() > plotRect().width()) return;
  lines_ = (lines_ + parts - 1) / parts;
  for (Place& place : places_) place = {place.line % lines_, place.column + place.line / lines_ * part_width};
}

QRect TokenTextView::cellOf(int position) const {
  if (position < 0 || position >= to_int(places_.size())) return {};
  const Place place = places_[position];
  const int line = place.line - first_line_;
  if (line < 0 || line >= visible_lines_) return {};
  return {plotRect().left() + margin_ + place.column * letter_.width(), plotRect().top() + line * lineHeight(),
          letter_.width(), letter_.height()};
}

int TokenTextView::tokenAt(QPoint position, int* row) const {
  if (!text_ || places_.empty() || !plotRect().contains(position)) return -1;
  const int line = first_line_ + (position.y() - plotRect().top()) / lineHeight();
  const int column = (position.x() - plotRect().left() - margin_) / letter_.width();
  if (position.x() < plotRect().left() + margin_ || line >= first_line_ + visible_lines_) return -1;
  const int below = (position.y() - plotRect().top()) % lineHeight() - letter_.height();
  *row = manyRows() && below >= 0 && row_height_ > 0 ? std::min<int>(below / row_height_, to_int(std::ssize(rows_) - 1))
                                                     : -1;
  const auto found =
      std::ranges::find_if(places_, [&](const Place& place) { return place.line == line && place.column == column; });
  if (found == places_.end()) return -1;
  return to_int(span_at(tokens_, found - places_.begin()).begin);
}

// Returns the colour of the token's first expert, or a trace of it while another expert is highlighted.
QColor TokenTextView::blended(const Row& row, int position) const {
  const std::size_t top_k = row.layer->top_k;
  const auto* experts = row.layer->experts_TK.data() + position * top_k;
  const QColor ground = palette().base().color();
  if (highlight_ < 0 || row.layer->layer != highlight_layer_)
    return mixedColor(ground, row.colors.colorOf(experts[0]), highlight_ < 0 ? 0.85 : 0.25);
  const auto* place = std::find(experts, experts + top_k, static_cast<std::uint16_t>(highlight_));
  return highlightColor(row, place != experts + top_k, place == experts);
}

QColor TokenTextView::highlightColor(const Row& row, bool is_chosen, bool is_first) const {
  const QColor ground = palette().base().color();
  if (!is_chosen) return mixedColor(ground, palette().text().color(), 0.06);
  return mixedColor(ground, row.colors.colorOf(highlight_), is_first ? 0.95 : 0.5);
}

LegendScale TokenTextView::highlightLegend() const {
  const Row* row = legendRow();
  LegendScale legend;
  if (!row || highlight_ < 0 || row->layer->layer != highlight_layer_) return legend;
  legend.swatches = {{highlightColor(*row, true, true), QString("expert %1 first").arg(highlight_)}};
  if (row->layer->top_k > 1) legend.swatches.push_back({highlightColor(*row, true, false), "also chosen"});
  legend.swatches.push_back({highlightColor(*row, false, false), "not chosen"});
  return legend;
}

void TokenTextView::paintData(QPainter& painter) {
  layOut();
  if (!text_ || rows_.empty()) return;
  if (manyRows()) paintLines(painter);
  paintLetters(painter);
  paintScrollMark(painter);
  paintLegend(painter);
}

void TokenTextView::paintLines(QPainter& painter) const {
  const int rows = to_int(rows_.size());
  for (int t = 0; t < to_int(places_.size()); ++t) {
    const QRect cell = cellOf(t);
    for (int row = 0; row < rows && !cell.isNull(); ++row)
      painter.fillRect(cell.left(), cell.bottom() + 1 + row * row_height_, cell.width(), row_height_,
                       QColor(colorOf(t, row)));
  }
  const QFontMetrics metrics(painter.font());
  painter.setPen(mutedText(palette()));
  const int row_distance = std::max(1, (metrics.height() + row_height_ - 1) / row_height_);
  for (int line = 0; line < std::min(visible_lines_, lines_ - first_line_); ++line)
    for (int row = 0; row < rows; row += row_distance) {
      const int middle =
          plotRect().top() + line * lineHeight() + letter_.height() + row * row_height_ + row_height_ / 2;
      const int layer = rows_[row].layer->layer;
      painter.drawText(
          QRect(plotRect().left() - 6, middle - metrics.height() / 2, withType(kLayerLabel) - 2, metrics.height()),
          Qt::AlignRight | Qt::AlignVCenter, row == 0 ? QString("L%1").arg(layer) : QString::number(layer));
    }
}

void TokenTextView::paintLetters(QPainter& painter) const {
  const QFont usual = painter.font();
  painter.setFont(letters());
  const bool gaps = has_long_tokens(tokens_);
  for (const TokenSpan& token : tokens_) {
    for (std::size_t byte = token.begin; byte < token.end;) {
      const int t = to_int(byte);
      const int gap = gaps && byte == token.begin ? 2 : 0;
      if (const QRect cell = cellOf(t); !cell.isNull() && !manyRows())
        painter.fillRect(cell.adjusted(gap, 0, 0, -1), blended(rows_[0], t));
      paintLetter(painter, byte, token);
      byte += characterBytes(*text_, token, byte);
    }
  }
  painter.setFont(usual);
}

void TokenTextView::paintLetter(QPainter& painter, std::size_t byte, TokenSpan token) const {
  const int t = to_int(byte);
  const QRect cell = cellOf(t);
  if (cell.isNull()) return;
  const auto value = static_cast<std::uint8_t>(text_->text[byte]);
  const QString character = longCharacter(bytesOfToken(*text_, token), byte - token.begin);
  QColor pen = manyRows() ? palette().text().color() : textOn(blended(rows_[0], t).rgb());
  const bool plain = !character.isEmpty() || (value > 0x20 && value < 0x7f);
  if (!plain) pen.setAlpha(120);
  painter.setPen(pen);
  painter.drawText(cell, Qt::AlignCenter, character.isEmpty() ? byteGlyph(value) : character);
  if (t >= text_->prompt) return;
  painter.setPen(palette().text().color());  // the underline lies below the coloured ground
  painter.drawLine(cell.bottomLeft(), cell.bottomRight());
}

const TokenTextView::Row* TokenTextView::legendRow() const {
  for (const Row& row : rows_)
    if (row.layer->layer == highlight_layer_) return &row;
  return rows_.empty() ? nullptr : &rows_.front();
}

// Paints the experts that are a first choice, by id, so that they keep their order while the run trains.
void TokenTextView::paintLegend(QPainter& painter) {
  chips_.clear();
  const Row* row = legendRow();
  if (!row) return;
  std::set<int> experts;
  for (const TokenSpan& token : tokens_) experts.insert(row->layer->experts_TK[token.begin * row->layer->top_k]);
  const QFontMetrics metrics(painter.font());
  const QString name = QString("layer %1, expert:").arg(row->layer->layer);
  int x = plotRect().left();
  const int y = height() - withType(kLegendHeight) - 1;
  painter.setPen(mutedText(palette()));
  painter.drawText(QRect(x, y, metrics.horizontalAdvance(name), withType(kLegendHeight) - 2), Qt::AlignVCenter, name);
  x += metrics.horizontalAdvance(name) + 6;
  for (const int e : experts) {
    const QString label = QString::number(e);
    const int width = metrics.horizontalAdvance(label) + 10;
    if (x + width > plotRect().right() - 12) {
      painter.setPen(mutedText(palette()));
      painter.drawText(QRect(x, y, 20, withType(kLegendHeight) - 2), Qt::AlignVCenter, QStringLiteral("..."));
      break;
    }
    const QRect box(x, y + 1, width, withType(kLegendHeight) - 4);
    const QColor ground = row->colors.colorOf(e);
    painter.fillRect(box, ground);
    painter.setPen(textOn(ground.rgb()));
    painter.drawText(box, Qt::AlignCenter, label);
    if (e == highlight_) {
      painter.setPen(QPen(cursorColor(dark()), 2));
      painter.drawRect(box);
    }
    chips_.push_back({box, e});
    x += width + 3;
  }
}

void TokenTextView::paintScrollMark(QPainter& painter) const {
  if (lines_ <= visible_lines_) return;
  const QRect room = plotRect();
  const int height = std::max(8, room.height() * visible_lines_ / lines_);
  const int y = room.top() + (room.height() - height) * first_line_ / std::max(1, lines_ - visible_lines_);
  painter.fillRect(QRect(room.right() + 3, y, 3, height), mutedText(palette()));
}

void TokenTextView::paintOverlay(QPainter& painter) {
  painter.setPen(QPen(cursorColor(dark()), 2));
  outline(painter, current_, {0, 0, 0, manyRows() ? to_int(rows_.size()) * row_height_ : -1});
  int row = -1;
  const int token = tokenAt(mouse_, &row);
  if (token < 0 || !describe) return;
  painter.setPen(palette().text().color());
  outline(painter, token, {0, 0, -1, -2});
  PlotFrame::paintOverlay(painter);
}

// Paints a rectangle around the cells of a token in each line, larger by the margins.
void TokenTextView::outline(QPainter& painter, int position, QMargins margins) const {
  if (position < 0 || position >= to_int(places_.size())) return;
  QRect part;
  const TokenSpan token = span_at(tokens_, position);
  for (std::size_t byte = token.begin; byte <= token.end; ++byte) {
    const QRect cell = byte < token.end ? cellOf(to_int(byte)) : QRect();
    if (!part.isNull() && (cell.isNull() || cell.top() != part.top())) {
      painter.drawRect(part.marginsAdded(margins));
      part = {};
    }
    part = part.isNull() ? cell : part.united(cell);
  }
}

QStringList TokenTextView::readoutAt(QPoint position) const {
  int row = -1;
  const int token = describe ? tokenAt(position, &row) : -1;
  const int layer = row >= 0 ? rows_[row].layer->layer : -1;
  return token < 0 ? QStringList() : describe(token, layer);
}

void TokenTextView::mousePressEvent(QMouseEvent* event) {
  if (event->button() != Qt::LeftButton || !notice().isEmpty()) return;
  for (const Chip& chip : chips_)
    if (chip.box.contains(event->pos()))
      return emit expertChosen(legendRow()->layer->layer, chip.expert == highlight_ ? -1 : chip.expert);
  int row = -1;
  const int token = tokenAt(event->pos(), &row);
  if (token >= 0) emit tokenChosen(token, row >= 0 ? rows_[row].layer->layer : -1);
}

void TokenTextView::scrollTo(int line) {
  line = std::clamp(line, 0, std::max(0, lines_ - visible_lines_));
  if (line == first_line_) return;
  first_line_ = line;
  markDirty();
}

void TokenTextView::wheelEvent(QWheelEvent* event) {
  scrollTo(first_line_ - (event->angleDelta().y() > 0 ? 1 : -1));
}

void TokenTextView::keyPressEvent(QKeyEvent* event) {
  const int last = to_int(places_.size()) - 1;
  const bool chosen = current_ >= 0 && current_ <= last;
  const TokenSpan token = chosen ? span_at(tokens_, current_) : TokenSpan{};
  int to = current_;
  if (event->key() == Qt::Key_Left)
    to = to_int(token.begin) - 1;
  else if (event->key() == Qt::Key_Right)
    to = to_int(token.end);
  else if (event->key() == Qt::Key_PageDown)
    return scrollTo(first_line_ + visible_lines_);
  else if (event->key() == Qt::Key_PageUp)
    return scrollTo(first_line_ - visible_lines_);
  else
    return PlotFrame::keyPressEvent(event);
  if (last < 0) return;
  to = to_int(span_at(tokens_, std::clamp(to, 0, last)).begin);
  const int line = places_[to].line;
  if (line < first_line_ || line >= first_line_ + visible_lines_) scrollTo(line);
  emit tokenChosen(to, -1);
}

}  // namespace moescope
