#!/bin/sh
# Renders the icons of the app, its tray and its packages from their SVG sources.
# Needs rsvg-convert (librsvg2-bin), convert (ImageMagick), png2icns (icnsutils) and optipng.
set -eu
cd "$(dirname "$0")"
for size in 32 128 256 512; do rsvg-convert -w $size -h $size culvert.svg -o $size.png; done
convert culvert.svg -background none -define icon:auto-resize=256,64,48,32,16 culvert.ico
png2icns culvert.icns 512.png 256.png 128.png 32.png >/dev/null
# White for dark panels, dark for light ones: which is needed is known only when the app runs.
for state in off working verified degraded failed; do
  rsvg-convert -w 44 -h 44 "tray-$state.svg" -o "tray-$state-light.png"
  sed 's/stroke="#fff"/stroke="#12201f"/' "tray-$state.svg" | rsvg-convert -w 44 -h 44 -o "tray-$state-dark.png"
done
# Tauri reads RGBA only, so the colour type stays.
optipng -quiet -o5 -nx ./*.png
