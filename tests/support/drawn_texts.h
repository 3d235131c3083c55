// The texts that a widget draws, and their places. The widget is painted on a device that records only texts.
#pragma once

#include <QPaintDevice>
#include <QPaintEngine>
#include <QPainter>
#include <QWidget>
#include <memory>
#include <vector>

#include "widgets/plots/plot_frame.h"

namespace moescope {

struct DrawnText {
  QString text;
  QRectF place;  // place in the widget
};

class TextRecorder : public QPaintDevice {
 public:
  TextRecorder(QSize size, double dpi) : size_(size), dpi_(dpi) {}
  std::vector<DrawnText> texts;

  QPaintEngine* paintEngine() const override {
    if (!engine_) engine_ = std::make_unique<Engine>(const_cast<TextRecorder*>(this));
    return engine_.get();
  }

 protected:
  int metric(PaintDeviceMetric which) const override {
    switch (which) {
      case PdmWidth:
        return size_.width();
      case PdmHeight:
        return size_.height();
      case PdmWidthMM:
        return static_cast<int>(size_.width() * 25.4 / dpi_);
      case PdmHeightMM:
        return static_cast<int>(size_.height() * 25.4 / dpi_);
      case PdmNumColors:
        return 1 << 24;
      case PdmDepth:
        return 32;
      case PdmDpiX:
      case PdmDpiY:
      case PdmPhysicalDpiX:
      case PdmPhysicalDpiY:
        return static_cast<int>(dpi_);
      case PdmDevicePixelRatio:
        return 1;
      case PdmDevicePixelRatioScaled:
        return static_cast<int>(devicePixelRatioFScale());
    }
    return 0;
  }

 private:
  class Engine : public QPaintEngine {
   public:
    explicit Engine(TextRecorder* recorder) : QPaintEngine(AllFeatures), recorder_(recorder) {}
    bool begin(QPaintDevice*) override { return true; }
    bool end() override { return true; }
    void updateState(const QPaintEngineState& state) override {
      if (state.state() & DirtyTransform) transform_ = state.transform();
    }
    void drawPixmap(const QRectF&, const QPixmap&, const QRectF&) override {}
    void drawImage(const QRectF&, const QImage&, const QRectF&, Qt::ImageConversionFlags) override {}
    void drawTiledPixmap(const QRectF&, const QPixmap&, const QPointF&) override {}
    void drawPath(const QPainterPath&) override {}
    void drawPolygon(const QPointF*, int, PolygonDrawMode) override {}
    void drawPolygon(const QPoint*, int, PolygonDrawMode) override {}
    void drawLines(const QLineF*, int) override {}
    void drawLines(const QLine*, int) override {}
    void drawRects(const QRectF*, int) override {}
    void drawRects(const QRect*, int) override {}
    void drawEllipse(const QRectF&) override {}
    void drawEllipse(const QRect&) override {}
    void drawPoints(const QPointF*, int) override {}
    void drawPoints(const QPoint*, int) override {}
    // Adjacent items on a line, for example in different fonts, form one text.
    void drawTextItem(const QPointF& at, const QTextItem& item) override {
      const QRectF place =
          transform_.mapRect(QRectF(at.x(), at.y() - item.ascent(), item.width(), item.ascent() + item.descent()));
      auto& texts = recorder_->texts;
      const bool goes_on = !texts.empty() && std::abs(texts.back().place.top() - place.top()) < 1 &&
                           std::abs(texts.back().place.right() - place.left()) < 1.5;
      if (!goes_on) return texts.push_back({item.text(), place});
      texts.back().text += item.text();
      texts.back().place |= place;
    }
    Type type() const override { return User; }

   private:
    TextRecorder* recorder_;
    QTransform transform_;
  };

  QSize size_;
  double dpi_;
  mutable std::unique_ptr<Engine> engine_;
};

inline std::vector<DrawnText> textsPaintedBy(QWidget* widget) {
  TextRecorder recorder(widget->size(), widget->logicalDpiX());
  widget->render(&recorder, {}, {}, QWidget::RenderFlags());
  return recorder.texts;
}

// Returns the texts that the widget draws, without those of its children. For a plot, it also leaves out the texts that
// follow the mouse, which textsPaintedBy() returns.
inline std::vector<DrawnText> textsDrawnBy(QWidget* widget) {
  auto* plot = qobject_cast<PlotFrame*>(widget);
  if (plot) plot->setPrinted(true);  // paints without a cached picture
  const std::vector<DrawnText> texts = textsPaintedBy(widget);
  if (plot) {
    plot->setPrinted(false);
    plot->markDirty();
  }
  return texts;
}

}  // namespace moescope
