/** True in the build over the mock core. */
declare const __MOCK__: boolean;
