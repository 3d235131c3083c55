// A paint device that writes SVG: text stays text, clips are kept, pictures of heat maps are embedded pixel for pixel.
//
// Why not QSvgGenerator: in Qt 6.4 it drops every clip, so that a zoomed curve is drawn across the axes.
#pragma once

#include <QByteArray>
#include <QPaintDevice>
#include <QSize>
#include <QString>
#include <memory>

namespace moescope {

class SvgEngine;

class SvgDevice : public QPaintDevice {
 public:
  // `size`: in CSS pixels. `title` and `description`: for readers who cannot see the picture.
  SvgDevice(QSize size, const QString& title, const QString& description);
  ~SvgDevice() override;

  // call after the painter has ended
  QByteArray document() const { return "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n" + element(); }
  // Returns the <svg> element alone, for an HTML page. `prefix` keeps its ids apart from the ids of other pictures.
  QByteArray element(const QByteArray& prefix = {}) const;

  QPaintEngine* paintEngine() const override;

 protected:
  int metric(PaintDeviceMetric metric) const override;

 private:
  QSize size_;
  QString title_, description_;
  std::unique_ptr<SvgEngine> engine_;
};

}  // namespace moescope
