#include "widgets/compare/verdict_table.h"

#include <QContextMenuEvent>
#include <QKeyEvent>
#include <QMenu>
#include <QMouseEvent>
#include <QPainter>
#include <algorithm>
#include <cmath>

#include "widgets/look/fitted_text.h"
#include "widgets/look/style.h"
#include "widgets/look/tokens.h"
#include "widgets/plots/axis.h"
#include "widgets/plots/color_scale.h"

namespace moescope {
namespace {

constexpr int kMinPlot = 140, kPlotBesideNotes = 200, kUsualPlot = 250;  // widths of the interval plot
constexpr int kGapRadius = 5, kCap = 4;
constexpr int kLowRow = 22;
constexpr int kEdge = kSpace4;  // margin in addition to that of the panel
constexpr int kCircle = 14;     // diameter of the circles that choose the baseline
constexpr char kBaseline[] = "Baseline";

struct ColumnHead {
  const char *first, *second;
};
constexpr std::array<ColumnHead, VerdictRow::kColumns> kHeads = {{{"Mean gap", "±95 %"},
                                                                  {"Lowest SQNR", "dB"},
                                                                  {"Flushed", "to zero"},
                                                                  {"Flips by", "rounding"},
                                                                  {"Gradient", "error"},
                                                                  {"Speed here", "tokens/s"}}};
constexpr std::array<FigureKey, VerdictRow::kColumns> kFigureKeys = {
    FigureKey("ce_loss"),         FigureKey("sqnr_db"),     FigureKey("underflow"), FigureKey("rounding_flip_rate"),
    FigureKey("gradient_snr_db"), FigureKey("tokens_per_s")};

int widthOf(const QFont& font, const QString& text) {
  return QFontMetrics(font).horizontalAdvance(text);
}

QColor colorOf(const VerdictRow& row, bool dark) {
  return row.word ? signColor(row.sign, dark) : seriesColor(row.color, dark);
}

}  // namespace

Sign signOf(const Conclusion& conclusion) {
  if (conclusion.may_change || conclusion.held_from > 0) return Sign::unsure;
  const VerdictWord word = verdict_word(conclusion);
  if (word == VerdictWord::good_enough || word == VerdictWord::better) return Sign::good;
  if (word == VerdictWord::not_judged) return Sign::open;
  return word == VerdictWord::worse ? Sign::bad : Sign::unsure;
}

void paintChip(QPainter& painter, const QRect& place, const QString& letter, const QColor& color) {
  painter.save();
  painter.setRenderHint(QPainter::Antialiasing);
  painter.setPen(Qt::NoPen);
  painter.setBrush(color);
  painter.drawRoundedRect(place, kRadiusControl, kRadiusControl);
  painter.setFont(typeFont(Type::caption, true));
  painter.setPen(textOn(color.rgb()));
  painter.drawText(place, Qt::AlignCenter, letter);
  painter.restore();
}

QStringList VerdictRow::spoken() const {
  QStringList parts{letter + QLatin1Char(' ') + name + (note.isEmpty() ? QString() : QStringLiteral(", ") + note)};
  if (word) parts << verdict + (reasons.isEmpty() ? QString() : QStringLiteral(", ") + reasons.front());
  const QStringList names = VerdictTable::columnNames();
  for (int column = 0; column < kColumns; ++column) {
    const VerdictFigure& figure = figures[column];
    if (figure.missing()) continue;
    parts << names[column] + QStringLiteral(": ") + figure.text +
                 (figure.below.isEmpty() ? QString() : QLatin1Char(' ') + figure.below) +
                 (figure.tip.isEmpty() ? QString() : QStringLiteral(" (%1)").arg(figure.tip));
  }
  if (!note_tip.isEmpty()) parts << note_tip;
  return parts;
}

VerdictTable::VerdictTable(QWidget* parent) : PlotFrame(parent) {
  setAccessibleName("Verdicts over the runs");
}

QStringList VerdictTable::columnNames() {
  QStringList names;
  for (const ColumnHead& head : kHeads)
    names << QString::fromUtf8(head.first) + QLatin1Char(' ') + QString::fromUtf8(head.second);
  return names;
}

void VerdictTable::setRows(std::vector<VerdictRow> rows, float matters, const QString& share) {
  if (rows.size() != rows_.size()) updateGeometry();
  rows_ = std::move(rows);
  matters_ = matters;
  share_ = share;
  chooseRange();
}

void VerdictTable::chooseRange() {
  double low = 0, high = 0;
  const auto take = [&](float value) {
    if (!std::isfinite(value)) return;
    low = std::min(low, static_cast<double>(value));
    high = std::max(high, static_cast<double>(value));
  };
  for (const VerdictRow& row : rows_) {
    const float half_width = std::isfinite(row.half_width) ? row.half_width : 0;
    take(row.gap - half_width);
    take(row.gap + half_width);
  }
  take(matters_);
  take(-matters_);
  if (low == high) {
    low = -1e-3;
    high = 1e-3;
  }
  const double edge = 0.03 * (high - low);
  values_ = {low - edge, high + edge};
}

int VerdictTable::heightFor(int rows) const {
  const int caption = QFontMetrics(typeFont(Type::caption)).height();
  return 2 * caption + kSpace8 + rows * withType(kTableRowHeight) + caption + kSpace8;
}

int VerdictTable::nameWidth(bool notes) const {
  int widest = 0;
  for (const VerdictRow& row : rows_) {
    widest = std::max(widest, widthOf(typeFont(Type::body, true), row.name));
    if (notes) widest = std::max(widest, widthOf(typeFont(Type::caption), row.note));
  }
  return widest;
}

int VerdictTable::verdictWidth(qsizetype form) const {
  int widest = 0;
  for (const VerdictRow& row : rows_) {
    const int mark = row.word ? withType(kMarkSize) + kSpace8 : 0;
    widest = std::max(widest, mark + widthOf(typeFont(Type::body, true), row.verdict));
    if (!row.reasons.isEmpty())
      widest = std::max(widest,
                        mark + widthOf(typeFont(Type::caption), row.reasons[std::min(form, row.reasons.size() - 1)]));
  }
  return widest;
}

int VerdictTable::columnWidth(int column) const {
  const ColumnHead& head = kHeads[column];
  int widest = std::max(widthOf(typeFont(Type::caption), QString::fromUtf8(head.first)),
                        widthOf(typeFont(Type::caption), QString::fromUtf8(head.second)));
  for (const VerdictRow& row : rows_) {
    const VerdictFigure& figure = row.figures[column];
    widest = std::max(
        {widest, widthOf(typeFont(Type::body, true), figure.text), widthOf(typeFont(Type::caption), figure.below)});
  }
  return widest;
}

// True if a run has the figure of the column, or there are gaps. Other columns, such as those of quantization in logs,
// are hidden.
bool VerdictTable::hasColumn(int column) const {
  return (column == VerdictRow::kGap && rows_.size() > 1) ||
         std::ranges::any_of(rows_, [column](const VerdictRow& row) { return !row.figures[column].missing(); });
}

VerdictTable::Layout VerdictTable::layOut() const {
  Layout at;
  const int caption = QFontMetrics(typeFont(Type::caption)).height(), count = std::max(1, to_int(rows_.size()));
  at.header = 2 * caption + kSpace8;
  at.row = std::clamp((height() - at.header - caption - kSpace8) / count, withType(kLowRow), withType(kTableRowHeight));
  at.two_lines = at.row >= QFontMetrics(typeFont(Type::body, true)).height() + caption;
  at.chip = kEdge + (choosesBaseline() ? widthOf(typeFont(Type::caption), kBaseline) + kSpace12 : 0);
  at.name = at.chip + withType(kChipSize) + kSpace8;
  for (int column = 0; column < VerdictRow::kColumns; ++column)
    if (hasColumn(column)) at.columns.push_back(column);
  const auto figures = [&] {
    int width = 0;
    for (const int column : at.columns) width += columnWidth(column) + kSpace16;
    return width;
  };
  qsizetype form = 0, last_form = 0;
  for (const VerdictRow& row : rows_) last_form = std::max(last_form, row.reasons.size() - 1);
  const auto left_for_plot = [&] {
    return width() - at.name - nameWidth(at.notes) - kSpace24 - verdictWidth(form) - kSpace16 - figures() - kEdge;
  };
  at.notes = at.two_lines;
  const auto shorten = [&](int room) {
    for (form = 0; form < last_form && left_for_plot() < withType(room);) ++form;
  };
  shorten(kPlotBesideNotes);
  if (left_for_plot() < withType(kPlotBesideNotes)) {
    at.notes = false;
    shorten(kMinPlot);
  }
  if (left_for_plot() < withType(kMinPlot)) {
    at.name -= at.chip - kEdge;
    at.chip = kEdge;
  }
  while (left_for_plot() < withType(kMinPlot) && at.columns.size() > 1) at.columns.pop_back();
  const int spare = left_for_plot();
  // Room beyond twice the usual width of the plot is shared with the spaces between the columns.
  const int parts = to_int(at.columns.size()) + 2, more = std::max(0, spare - 2 * withType(kUsualPlot)) / parts;
  at.mark = at.name + nameWidth(at.notes) + kSpace24 + more;
  at.word = at.mark + withType(kMarkSize) + kSpace8;
  at.reasons = verdictWidth(form) - withType(kMarkSize) - kSpace8;
  at.plot = at.mark + verdictWidth(form) + kSpace16 + more;
  int right = width() - kEdge;
  for (auto column = at.columns.rbegin(); column != at.columns.rend(); ++column) {
    at.right[*column] = right;
    right -= columnWidth(*column) + kSpace16 + more;
  }
  at.plot_width = rows_.size() > 1 && right - at.plot >= withType(kMinPlot) / 2 ? right - at.plot : 0;
  return at;
}

Axis VerdictTable::gapAxis(const Layout& at) const {
  return {.low = values_.low,
          .high = values_.high,
          .at_low = static_cast<double>(at.plot),
          .at_high = static_cast<double>(at.plot + at.plot_width)};
}

int VerdictTable::rowAt(int y) const {
  const Layout at = layOut();
  if (y < at.header) return -1;
  const int row = (y - at.header) / at.row;
  return row < to_int(rows_.size()) ? row : -1;
}

QString VerdictTable::baselineLetter() const {
  const auto found = std::ranges::find_if(rows_, &VerdictRow::baseline);
  return found == rows_.end() ? QStringLiteral("A") : found->letter;
}

bool VerdictTable::choosesBaseline() const {
  if (printed()) return false;
  return std::ranges::count(rows_, false, &VerdictRow::noise) > 1 || (!rows_.empty() && !rows_.front().baseline);
}

void VerdictTable::chooseBaseline(int row) {
  if (row >= 0 && !rows_[row].noise) emit baselineChosen(row);
}

void VerdictTable::paintData(QPainter& painter) {
  const Layout at = layOut();
  const Colors& c = colors(palette());
  painter.setFont(typeFont(Type::caption));
  for (int row = 0; row < to_int(rows_.size()); ++row) {
    const int top = at.header + row * at.row;
    if (row == active_ && rows_.size() > 1) painter.fillRect(0, top, width(), at.row, QColor(c.sunken));
    painter.setPen(QColor(c.hairline));
    painter.drawLine(0, top, width(), top);
  }
  paintHeader(painter, at);
  if (at.plot_width > 0) paintBand(painter, at);
  for (int row = 0; row < to_int(rows_.size()); ++row) {
    paintRow(painter, at, row);
    if (at.plot_width > 0) paintInterval(painter, at, row);
  }
}

QStringList VerdictTable::bandForms() const {
  if (!std::isfinite(matters_)) return {};
  const QString size = QStringLiteral("±") + inPrint(QString::number(matters_, 'g', 2));
  return {QString("too small to matter: %1, %2 of the loss").arg(size, share_),
          QString("too small to matter: %1").arg(size), "too small to matter"};
}

void VerdictTable::paintHeader(QPainter& painter, const Layout& at) const {
  const Colors& c = colors(palette());
  const QFontMetrics metrics(painter.font());
  const int line = metrics.height();
  painter.setPen(QColor(c.ink2));
  if (at.chip > kEdge) painter.drawText(QRect(kEdge, 0, at.chip - kEdge, line), Qt::AlignLeft, kBaseline);
  painter.drawText(QRect(at.chip, 0, at.mark - at.chip, line), Qt::AlignLeft, "Run");
  painter.drawText(QRect(at.mark, 0, at.reasons, line), Qt::AlignLeft,
                   fittingText({"Verdict on the loss", "Verdict"}, metrics, at.reasons));
  for (const int column : at.columns) {
    const ColumnHead& head = kHeads[column];
    const int right = at.right[column];
    painter.drawText(QRect(0, 0, right, line), Qt::AlignRight, QString::fromUtf8(head.first));
    painter.drawText(QRect(0, line, right, line), Qt::AlignRight, QString::fromUtf8(head.second));
  }
  if (at.plot_width == 0) return;
  const QString title = fittingText(
      {QString("Mean loss gap to %1, nats/token").arg(baselineLetter()), "Mean gap, nats/token", "Mean gap"}, metrics,
      at.plot_width);
  painter.drawText(QRect(at.plot, 0, at.plot_width, line), Qt::AlignLeft, title);
  const int swatch = metrics.ascent();
  const int used = metrics.horizontalAdvance(title) + kSpace16;
  QRect place(at.plot + used, 0, at.plot_width - used, line);
  if (fittingText(bandForms().mid(0, 2), metrics, place.width() - swatch - kSpace4).isEmpty())
    place = QRect(at.plot, line, at.plot_width, line);
  const QString band = fittingText(bandForms(), metrics, place.width() - swatch - kSpace4);
  if (band.isEmpty()) return;
  drawRounded(painter, QRect(place.left(), place.top() + (line - swatch) / 2, swatch, swatch), 0, QColor(c.good_soft),
              QColor(c.good));
  painter.setPen(QColor(c.ink2));
  painter.drawText(place.adjusted(swatch + kSpace4, 0, 0, 0), Qt::AlignLeft, band);
}

// Paints the band that is too small to matter, the grid and the common axis.
void VerdictTable::paintBand(QPainter& painter, const Layout& at) const {
  const Colors& c = colors(palette());
  const Axis axis = gapAxis(at);
  const int top = at.header, bottom = at.header + to_int(rows_.size()) * at.row;
  const QFontMetrics metrics(painter.font());
  const std::vector<Tick> ticks = linearTicks(values_.low, values_.high, std::max(2, at.plot_width / withType(64)));
  if (std::isfinite(matters_)) {
    const double left_x = axis.toPixel(-static_cast<double>(matters_)), right = axis.toPixel(matters_);
    painter.fillRect(QRectF(left_x, top, right - left_x, bottom - top), QColor(c.good_soft));
    painter.setPen(QColor(c.good));
    for (const double x : {left_x, right}) painter.drawLine(QPointF(x, top), QPointF(x, bottom));
  }
  int free_from = at.plot - kSpace8;
  for (const Tick& tick : ticks) {
    const int x = to_int(std::lround(axis.toPixel(tick.value)));
    painter.setPen(QColor(tick.value == 0 ? c.ink2 : c.grid));
    painter.drawLine(x, top, x, bottom);
    const QString label = tick.value > 0 ? QLatin1Char('+') + tick.label : tick.label;
    const int width = metrics.horizontalAdvance(label);
    if (x - width / 2 < free_from) continue;
    free_from = x + width / 2 + kSpace8;
    painter.setPen(QColor(c.ink2));
    painter.drawText(QRect(x - width, bottom + kSpace4, 2 * width, metrics.height()), Qt::AlignHCenter, label);
  }
}

void VerdictTable::paintLines(QPainter& painter, const QRect& place, const QString& above, const QString& below,
                              int align) const {
  const QFontMetrics upper(painter.font()), lower(typeFont(Type::caption));
  if (below.isEmpty()) return painter.drawText(place, align | Qt::AlignVCenter, above);
  const int height = upper.ascent() + lower.height(), top = place.top() + (place.height() - height) / 2;
  painter.drawText(QRect(place.left(), top - upper.descent(), place.width(), upper.height()), align | Qt::AlignBottom,
                   above);
  painter.setFont(typeFont(Type::caption));
  painter.setPen(QColor(colors(palette()).ink2));
  painter.drawText(QRect(place.left(), top + upper.ascent() - 1, place.width(), lower.height()), align | Qt::AlignTop,
                   below);
}

void VerdictTable::paintVerdict(QPainter& painter, const Layout& at, const QRect& line, const VerdictRow& row) const {
  const QFontMetrics caption(typeFont(Type::caption));
  const QString reason = fittingText(row.reasons, caption, at.reasons + (row.word ? 0 : at.word - at.mark));
  if (!row.word) {
    painter.setFont(typeFont(Type::caption));
    painter.setPen(QColor(colors(palette()).ink2));
    return painter.drawText(QRect(at.word, line.top(), at.reasons, line.height()), Qt::AlignLeft | Qt::AlignVCenter,
                            fittingText(row.reasons, caption, at.reasons));
  }
  const int mark = withType(kMarkSize);
  paintSign(painter, QRectF(at.mark, line.top() + (line.height() - mark) / 2.0, mark, mark), row.sign, dark());
  painter.setFont(typeFont(Type::body, true));
  painter.setPen(signColor(row.sign, dark()));
  paintLines(painter, QRect(at.word, line.top(), at.reasons + kSpace16, line.height()), row.verdict,
             at.two_lines ? reason : QString(), Qt::AlignLeft);
}

void VerdictTable::paintRow(QPainter& painter, const Layout& at, int number) const {
  const Colors& c = colors(palette());
  const VerdictRow& row = rows_[number];
  const QRect line(0, at.header + number * at.row, width(), at.row);
  if (at.chip > kEdge && !row.noise) paintCircle(painter, at, number);
  const int chip = withType(kChipSize);
  paintChip(painter, {at.chip, line.top() + (line.height() - chip) / 2, chip, chip}, row.letter,
            seriesColor(row.color, dark()));
  painter.setFont(typeFont(Type::body, true));
  painter.setPen(QColor(c.ink));
  const QRect name(at.name, line.top(), at.mark - at.name - kSpace8, line.height());
  paintLines(painter, name, elidedWords(row.name, QFontMetrics(typeFont(Type::body, true)), name.width()),
             at.notes ? row.note : QString(), Qt::AlignLeft);
  paintVerdict(painter, at, line, row);
  for (const int column : at.columns) {
    const VerdictFigure& figure = row.figures[column];
    painter.setFont(figure.bad || (column == VerdictRow::kGap && std::isfinite(row.half_width))
                        ? typeFont(Type::body, true)
                        : typeFont(Type::body));
    painter.setPen(QColor(figure.bad ? c.bad : c.ink));
    paintLines(painter, QRect(0, line.top(), at.right[column], line.height()), figure.text,
               at.two_lines ? figure.below : QString(), Qt::AlignRight);
  }
  painter.setFont(typeFont(Type::caption));
}

void VerdictTable::paintCircle(QPainter& painter, const Layout& at, int number) const {
  const Colors& c = colors(palette());
  const bool is_baseline = rows_[number].baseline;
  const double radius = withType(kCircle) / 2.0;
  const QPointF centre(kEdge + radius, at.header + (number + 0.5) * at.row);
  painter.save();
  painter.setRenderHint(QPainter::Antialiasing);
  painter.setPen(QPen(QColor(is_baseline ? c.accent : c.field_border), is_baseline ? radius / 1.5 : 1));
  painter.setBrush(QColor(c.surface));
  const double inner = is_baseline ? radius - radius / 3 : radius;
  painter.drawEllipse(centre, inner, inner);
  painter.restore();
}

void VerdictTable::paintInterval(QPainter& painter, const Layout& at, int number) const {
  const VerdictRow& row = rows_[number];
  if (!std::isfinite(row.gap)) return;
  const Axis axis = gapAxis(at);
  const double y = at.header + (number + 0.5) * at.row, gap = row.gap;
  const QColor color = colorOf(row, dark());
  painter.save();
  painter.setRenderHint(QPainter::Antialiasing);
  if (std::isfinite(row.half_width) && row.half_width > 0) {
    const double low = axis.toPixel(gap - row.half_width), high = axis.toPixel(gap + row.half_width);
    painter.setPen(QPen(color, kFocusLine, row.noise ? Qt::DashLine : Qt::SolidLine));
    painter.drawLine(QPointF(low, y), QPointF(high, y));
    painter.setPen(QPen(color, kFocusLine));
    for (const double x : {low, high}) painter.drawLine(QPointF(x, y - kCap), QPointF(x, y + kCap));
  }
  painter.setPen(QPen(color, kCurveWidth));
  const bool is_hollow = row.noise || (row.word && !std::isfinite(row.half_width));
  painter.setBrush(is_hollow ? QColor(colors(palette()).surface) : color);
  painter.drawEllipse(QPointF(axis.toPixel(gap), y), kGapRadius, kGapRadius);
  painter.restore();
}

std::vector<QStringList> VerdictTable::shownTexts() const {
  const Layout at = layOut();
  std::vector<QStringList> shown;
  for (const VerdictRow& row : rows_) {
    QStringList texts{row.name};
    if (at.notes) texts << row.note;
    texts << row.verdict;
    if (at.two_lines || !row.word) texts << fittingText(row.reasons, QFontMetrics(typeFont(Type::caption)), at.reasons);
    for (const int column : at.columns) {
      const VerdictFigure& figure = row.figures[column];
      texts << figure.text;
      if (at.two_lines) texts << figure.below;
    }
    texts.removeAll(QString());
    shown.push_back(texts);
  }
  return shown;
}

std::optional<FigureTarget> VerdictTable::figureAt(QPoint position) const {
  const Layout at = layOut();
  for (const int column : at.columns) {
    const int right = at.right[column];
    if (position.x() > right - columnWidth(column) && position.x() <= right)
      return FigureTarget{.key = kFigureKeys[column], .step = INT64_MAX};
  }
  return std::nullopt;
}

QStringList VerdictTable::readoutAt(QPoint position) const {
  const int row = rowAt(position.y());
  if (row < 0) return {};
  const Layout at = layOut();
  if (at.chip > kEdge && position.x() < at.chip && !rows_[row].noise)
    return {QString("Compare the other runs with %1").arg(rows_[row].letter)};
  return rows_[row].spoken();
}

QPoint VerdictTable::cursorPosition() const {
  const Layout at = layOut();
  return {at.name, at.header + active_ * at.row + at.row / 2};
}

void VerdictTable::mousePressEvent(QMouseEvent* event) {
  const int row = event->button() == Qt::LeftButton ? rowAt(event->pos().y()) : -1;
  const Layout at = layOut();
  if (row >= 0 && at.chip > kEdge && event->pos().x() < at.chip) {
    chooseBaseline(row);
  } else if (row >= 0) {
    emit rowChosen(row);
    active_ = row;
    markDirty();
  }
  PlotFrame::mousePressEvent(event);
}

// The figures of a row keep the menu of the panel, which explains them.
void VerdictTable::contextMenuEvent(QContextMenuEvent* event) {
  const int row = rowAt(event->pos().y());
  if (row < 0 || rows_[row].noise || event->pos().x() >= layOut().mark) return event->ignore();
  auto* menu = new QMenu(this);
  menu->setAttribute(Qt::WA_DeleteOnClose);
  menu->addAction(QString("Compare the others with %1").arg(rows_[row].letter), this,
                  [this, row] { chooseBaseline(row); })
      ->setEnabled(!rows_[row].baseline);
  menu->popup(event->globalPos());
}

void VerdictTable::keyPressEvent(QKeyEvent* event) {
  if (event->key() == Qt::Key_Return && active_ < std::ssize(rows_)) return chooseBaseline(active_);
  const int direction = arrowOf(event).y();
  if (direction == 0) return PlotFrame::keyPressEvent(event);
  const int row = std::clamp(active_ + direction, 0, std::max(0, to_int(rows_.size()) - 1));
  if (row == active_) return;
  emit rowChosen(row);
  active_ = row;
  markDirty();
  emit readoutChanged(rows_[row].spoken().join(QStringLiteral("   ")));
}

}  // namespace moescope
