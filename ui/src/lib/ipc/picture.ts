// A picture as the grey pixels that the core's QR reader takes.
import type { QrDecodeParams } from "./bindings";

/** The reader takes up to 4 MiB; larger pictures are made smaller first. */
const MOST_PIXELS = 3_000_000;

/** Reads `file` as grey pixels. Rejects when it is no picture. */
export async function greyPixels(file: Blob): Promise<QrDecodeParams> {
  const bitmap = await createImageBitmap(file);
  const scale = Math.min(1, Math.sqrt(MOST_PIXELS / (bitmap.width * bitmap.height)));
  const width = Math.max(1, Math.floor(bitmap.width * scale));
  const height = Math.max(1, Math.floor(bitmap.height * scale));
  const canvas = document.createElement("canvas");
  canvas.width = width;
  canvas.height = height;
  const context = canvas.getContext("2d", { willReadFrequently: true });
  if (!context) throw new Error("no canvas");
  context.fillStyle = "#fff";
  context.fillRect(0, 0, width, height);
  context.drawImage(bitmap, 0, 0, width, height);
  bitmap.close();
  return { grey_base64: toBase64(toGrey(context.getImageData(0, 0, width, height).data)), width, height };
}

/** RGBA to luma, a byte a pixel. */
export function toGrey(rgba: Uint8ClampedArray): Uint8Array {
  const grey = new Uint8Array(rgba.length / 4);
  for (let pixel = 0; pixel < grey.length; pixel += 1) {
    const at = pixel * 4;
    grey[pixel] = ((rgba[at] ?? 0) * 77 + (rgba[at + 1] ?? 0) * 150 + (rgba[at + 2] ?? 0) * 29) >> 8;
  }
  return grey;
}

function toBase64(bytes: Uint8Array): string {
  let text = "";
  const CHUNK = 32_768;
  for (let at = 0; at < bytes.length; at += CHUNK) text += String.fromCharCode(...bytes.subarray(at, at + CHUNK));
  return btoa(text);
}
