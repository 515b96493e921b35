// From the text of a data element to numbers: base64, raw deflate, varints.

/** Bytes of base64 text without white space. */
export function decodeBase64(text: string): Uint8Array {
  const native = (Uint8Array as unknown as { fromBase64?: (text: string) => Uint8Array })
    .fromBase64;
  if (native) return native.call(Uint8Array, text);
  const binary = atob(text);
  const bytes = new Uint8Array(binary.length);
  for (let i = 0; i < binary.length; ++i) bytes[i] = binary.charCodeAt(i);
  return bytes;
}

export async function inflate(packed: Uint8Array): Promise<Uint8Array> {
  const stream = new DecompressionStream('deflate-raw');
  const writer = stream.writable.getWriter();
  // Errors reach the reader below.
  writer.write(packed as Uint8Array<ArrayBuffer>).catch(() => {});
  writer.close().catch(() => {});
  const pieces: Uint8Array[] = [];
  let length = 0;
  const reader = stream.readable.getReader();
  for (;;) {
    const { value, done } = await reader.read();
    if (done) break;
    pieces.push(value);
    length += value.length;
  }
  const bytes = new Uint8Array(length);
  let at = 0;
  for (const piece of pieces) {
    bytes.set(piece, at);
    at += piece.length;
  }
  return bytes;
}

export interface Blob<Header> {
  header: Header;
  columns: Uint8Array;
}

/** length(u32, little-endian) JSON columns. */
export function splitBlob<Header>(bytes: Uint8Array): Blob<Header> {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const length = view.getUint32(0, true);
  if (4 + length > bytes.length) throw new Error('the data of this page are cut');
  const header = JSON.parse(new TextDecoder().decode(bytes.subarray(4, 4 + length)));
  return { header, columns: bytes.subarray(4 + length) };
}

/** Reads varints one after the other. Numbers above 2^53 lose their lowest bits. */
export class VarintReader {
  constructor(
    private readonly bytes: Uint8Array,
    private at = 0,
  ) {}

  next(): number {
    const bytes = this.bytes;
    let byte = bytes[this.at++];
    if (byte < 0x80) return byte;
    let value = byte & 0x7f;
    let scale = 128;
    do {
      byte = bytes[this.at++];
      value += (byte & 0x7f) * scale;
      scale *= 128;
    } while (byte >= 0x80);
    return value;
  }
}

export function unzigzag(value: number): number {
  return value % 2 === 0 ? value / 2 : -(value + 1) / 2;
}

/** Cuts columns off, one after the other. */
export class ColumnReader {
  private at = 0;
  constructor(private readonly bytes: Uint8Array) {}
  take(length: number): Uint8Array {
    const end = this.at + length;
    if (end > this.bytes.length) throw new Error('the data of this page are cut');
    const column = this.bytes.subarray(this.at, end);
    this.at = end;
    return column;
  }
}

export function readReals(column: Uint8Array, count: number): Float64Array {
  const view = new DataView(column.buffer, column.byteOffset, column.byteLength);
  const values = new Float64Array(count);
  for (let i = 0; i < count; ++i) values[i] = view.getFloat64(8 * i, true);
  return values;
}
