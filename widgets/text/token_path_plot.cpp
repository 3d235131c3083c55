#include "widgets/text/token_path_plot.h"

#include <QMouseEvent>
#include <QPainter>
#include <algorithm>

#include "core/frame/specialisation.h"
#include "widgets/look/fitted_text.h"
#include "widgets/panel/byte_text.h"
#include "widgets/plots/color_scale.h"

namespace moescope {

TokenPathPlot::TokenPathPlot(QWidget* parent) : PlotFrame(parent) {
  setMouseTracking(true);
}

void TokenPathPlot::setPath(std::shared_ptr<const TokenFrame> text, int position, std::vector<Column> columns) {
  text_ = std::move(text);
  position_ = position;
  columns_ = std::move(columns);
}

void TokenPathPlot::setCurrent(int layer, int expert) {
  layer_ = layer;
  expert_ = expert;
}

void TokenPathPlot::paintStatic(QPainter&) {}

std::vector<TokenPathPlot::Piece> TokenPathPlot::pieces() const {
  std::vector<Piece> pieces;
  const QRectF room = plotRect();
  const double width = room.width() / static_cast<double>(columns_.size());
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    const TokenLayer& layer = *columns_[i].layer;
    const std::vector<float> shares = mix_shares(layer, static_cast<std::size_t>(position_));
    double y = room.bottom();
    for (std::size_t k = 0; k < shares.size(); ++k) {
      const std::size_t slot = static_cast<std::size_t>(position_) * shares.size() + k;
      const double height = (is_missing(shares[k]) ? 0 : static_cast<double>(shares[k])) * room.height();
      y -= height;
      const double gap = std::min(2.0, width * 0.1);
      pieces.push_back({QRectF(room.left() + static_cast<double>(i) * width, y, width - gap, height), layer.layer,
                        layer.experts_TK[slot], shares[k], layer.scores_TK[slot]});
    }
  }
  return pieces;
}

QStringList TokenPathPlot::titles() const {
  const QString context = contextOf(*text_, span_at(token_spans(*text_), static_cast<std::size_t>(position_)), 9);
  return {QString("token %1, %2: shares of its experts in each layer").arg(position_).arg(context),
          QString("token %1, %2: shares of its experts").arg(position_).arg(context),
          QString("token %1, %2").arg(position_).arg(context)};
}

void TokenPathPlot::paintData(QPainter& painter) {
  pieces_.clear();
  if (!text_ || position_ < 0 || columns_.empty()) return;
  pieces_ = pieces();
  const QFontMetrics metrics(painter.font());
  painter.setPen(palette().text().color());
  painter.drawText(QRect(4, 0, width() - 8, metrics.height() + 2), Qt::AlignVCenter,
                   fittingText(titles(), metrics, width() - 8));
  painter.setPen(mutedText(palette()));
  const QRect room = plotRect();
  for (const auto& [label, y] : {std::pair(QStringLiteral("100 %"), room.top()), {QStringLiteral("0"), room.bottom()}})
    painter.drawText(QRect(0, y - metrics.height() / 2, room.left() - 4, metrics.height()),
                     Qt::AlignRight | Qt::AlignVCenter, label);
  int last_layer = -1;
  double last_label = -100;
  for (const Piece& piece : pieces_) {
    const auto column = std::ranges::find_if(columns_, [&](const Column& c) { return c.layer->layer == piece.layer; });
    const QColor color = column->colors.of(piece.expert);
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
      painter.drawText(QRectF(piece.box.left() - 4, room.bottom() + 1,
                              std::max(piece.box.width() + 8, double(withType(34))), metrics.height()),
                       Qt::AlignCenter, QString("L%1").arg(piece.layer));
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
  if (!piece) return {};
  const auto column = std::ranges::find_if(columns_, [&](const Column& c) { return c.layer->layer == piece->layer; });
  const float margin = column->layer->margin_T[static_cast<std::size_t>(position_)];
  QStringList lines{QString("layer %1, expert %2").arg(piece->layer).arg(piece->expert),
                    QString("%1 of the mix, score %2").arg(formatPercent(piece->share), formatValue(piece->score))};
  if (!is_missing(margin)) lines << QString("margin of the layer's choice %1").arg(formatValue(margin));
  return lines;
}

void TokenPathPlot::mousePressEvent(QMouseEvent* event) {
  if (const Piece* piece = pieceAt(event->pos())) emit expertChosen(piece->layer, piece->expert);
}

}  // namespace moescope
