// All element formats and E8M0: bits, range, spacing, special values; the block formats that combine them with scales;
// a code and its value, both editable; one or two formats on a number line.
#pragma once

#include <QCheckBox>
#include <QComboBox>
#include <QLabel>
#include <QLineEdit>
#include <QTableWidget>

#include "core/numerics/block_anatomy.h"
#include "widgets/panel/format_text.h"
#include "widgets/panel/panel.h"

namespace moescope {

class NumberLine;

// A code as coloured bits. A click, or the keys 0, 1 and the arrows, flip bits.
class BitEditor : public QWidget {
  Q_OBJECT

 public:
  explicit BitEditor(QWidget* parent = nullptr);
  void setCode(const BitLayout& layout, int code);
  QSize sizeHint() const override;
  QSize minimumSizeHint() const override { return sizeHint(); }

 signals:
  void codeEdited(int code);

 protected:
  void paintEvent(QPaintEvent*) override;
  void mousePressEvent(QMouseEvent* event) override;
  void keyPressEvent(QKeyEvent* event) override;

 private:
  QRect area() const { return rect().adjusted(4, 3, -2, -3); }
  void flip(int bit);

  BitLayout layout_;
  int code_ = 0, bit_ = 0;
};

class NumberFormatsPanel : public Panel {
  Q_OBJECT

 public:
  explicit NumberFormatsPanel(Selection* selection, QWidget* parent = nullptr);

  static constexpr int kE8m0 = kNumElementFormats;  // index of E8M0 after those of ElementFormat

  QString csv() const override;  // all codes of the selected format

 private:
  void setFormat(int format);
  void setCompared(int format);  // format to compare with; -1: none
  void setCode(int code);
  void setValue(const QString& text);  // encodes a value, or reports that the text is not a number
  void makeTable();
  QWidget* makeCodeRow();
  void refresh();

  int format_ = 0, compared_ = -1, code_ = 0x38;
  QTableWidget* table_ = nullptr;
  QComboBox* compare_ = nullptr;
  QCheckBox* log_ = nullptr;
  BitEditor* bits_ = nullptr;
  QLineEdit *hex_ = nullptr, *value_ = nullptr;
  QLabel *reading_ = nullptr, *rounding_ = nullptr;
  NumberLine* line_ = nullptr;
};

}  // namespace moescope
